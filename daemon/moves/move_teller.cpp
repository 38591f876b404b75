#include "daemon/moves/move_teller.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::moves {

using transport::MovedNote;

namespace {

// Operation::owner_data: which message it is, and of which begin().
constexpr std::uint64_t kTellNumber = 0xffff;
constexpr unsigned kBegunShift = 16;

// An object's name at its former owner. The generation tells it from a later one of that record.
std::uint64_t token_of(std::uint32_t record, std::uint64_t generation) noexcept {
  return generation << 32 | record;
}

// The group of a slot that stands for no object.
std::uint64_t group_in(base::Slot slot) noexcept {
  return std::uint64_t{slot} << (64 - base::kSlotBits);
}

}  // namespace

void MoveTeller::begin() noexcept {
  end();
  phase_ = Phase::objects;
  next_ = 1;
}

void MoveTeller::end() noexcept {
  if (phase_ != Phase::idle) engine_.end_soon(*this, clock_.now_ns());
  phase_ = Phase::idle;
  ++begun_;
  tells_out_ = calls_used_ = rounds_ = 0;
  wanted_first_ = wanted_count_ = 0;
  has_failed_ = false;
  resume_ns_ = 0;
}

int MoveTeller::do_work(base::TimeNs now_ns) noexcept {
  if (now_ns < resume_ns_) return 0;
  switch (phase_) {
    case Phase::idle:
      return 0;
    case Phase::objects:
      return tell_objects(now_ns);
    case Phase::slots:
      return tell_slots(now_ns);
    case Phase::calls:
      return call_all(now_ns);
  }
  return 0;
}

base::TimeNs MoveTeller::next_deadline_ns() const noexcept {
  const base::TimeNs soon_ns = clock_.now_ns() + base::kNsPerMs;
  if (phase_ == Phase::idle) return base::kNoDeadline;
  if (phase_ != Phase::calls) {
    return tells_out_ == kTellsMax ? base::kNoDeadline : std::max(resume_ns_, soon_ns);
  }
  base::TimeNs next_ns = base::kNoDeadline;
  for (std::uint32_t at = 0; at < calls_used_; ++at) {
    const Call& call = calls_[at];
    if (!call.is_out && call.failures < config_.call_failures_max) {
      next_ns = std::min(next_ns, std::max(call.resume_ns, soon_ns));
    }
  }
  return next_ns;
}

// ---- messages ----

engine::Operation* MoveTeller::new_message(base::TimeNs now_ns, std::uint64_t number) noexcept {
  engine::Operation* const operation = engine_.allocate_fetch();
  if (operation == nullptr) return nullptr;
  operation->header.opcode = ipc::Opcode::exists;
  operation->header.is_moved = true;
  operation->header.deadline_ns = now_ns + config_.tell_ns;
  operation->has_hashes = operation->may_be_late = true;
  operation->owner = this;
  operation->owner_data = begun_ << kBegunShift | number;
  return operation;
}

void MoveTeller::add(engine::Operation& operation, MovedNote note, std::uint64_t group,
                     base::KeyHash hash, std::uint64_t digest) noexcept {
  const std::uint32_t at = operation.page_count++;
  transport::PageRequest page;
  operation.key_bytes[0] = '.';  // no page is without a key
  page.key = operation.key_bytes.data();
  page.key_bytes = 1;
  page.hash = hash;
  page.group = group;
  page.depth = static_cast<std::uint32_t>(note);
  page.digest = digest;
  page.index = static_cast<std::uint16_t>(at);
  operation.pages[at] = page;
}

bool MoveTeller::tells_again(base::TimeNs now_ns) noexcept {
  const bool has_failed = std::exchange(has_failed_, false);
  if (!has_failed || rounds_ >= config_.rounds_max) return false;
  ++rounds_;
  resume_ns_ = now_ns + config_.pause_ns;
  return true;
}

int MoveTeller::tell_objects(base::TimeNs now_ns) noexcept {
  if (next_ > store_.records_highest()) {
    if (tells_out_ > 0) return 0;
    next_ = 1;
    if (tells_again(now_ns)) return 1;
    phase_ = Phase::slots;
    next_ = 0;
    return 1;
  }
  if (tells_out_ == kTellsMax) return 0;
  engine::Operation* const operation = new_message(now_ns, kTellNumber);
  if (operation == nullptr) return 0;
  const base::SlotDepartures& departures = server_.departures();
  const base::TimeNs until_ns = time_to_live_.needed_until_ns(now_ns);
  store::DepartingObject object;
  std::uint32_t looked = 0;
  for (; looked < config_.records_per_turn && operation->page_count < kTellPagesMax &&
         next_ <= store_.records_highest();
       ++looked, ++next_) {
    if (!store_.departing().look_at(next_, departures, until_ns, object)) continue;
    const base::Epoch into = departures.next[object.slot];
    if (operation->page_count == 0) operation->header.epoch = into;
    if (into != operation->header.epoch) break;
    add(*operation, MovedNote::object, object.group, object.hash,
        token_of(next_, object.generation));
  }
  if (operation->page_count == 0) {
    engine_.release(*operation);
    return std::max(static_cast<int>(looked), 1);
  }
  counters_.told.add(operation->page_count);
  ++tells_out_;
  engine_.submit(*operation);
  return static_cast<int>(looked);
}

int MoveTeller::tell_slots(base::TimeNs now_ns) noexcept {
  if (next_ == base::kSlotCount) {
    if (tells_out_ > 0) return 0;
    next_ = 0;
    if (tells_again(now_ns)) return 1;
    phase_ = Phase::calls;
    find_calls();
    return 1;
  }
  if (tells_out_ == kTellsMax) return 0;
  engine::Operation* const operation = new_message(now_ns, kTellNumber);
  if (operation == nullptr) return 0;
  const base::SlotDepartures& departures = server_.departures();
  for (; next_ < base::kSlotCount && operation->page_count < kTellPagesMax; ++next_) {
    const auto slot = static_cast<base::Slot>(next_);
    if (!departures.departs(slot)) continue;
    if (operation->page_count == 0) operation->header.epoch = departures.next[slot];
    if (departures.next[slot] != operation->header.epoch) break;
    add(*operation, MovedNote::slot_told, group_in(slot), {config_.shard, 0}, 0);
  }
  if (operation->page_count == 0) {
    engine_.release(*operation);
    return 1;
  }
  ++tells_out_;
  engine_.submit(*operation);
  return 1;
}

// ---- calls ----

// One for each shard that slots go to.
void MoveTeller::find_calls() noexcept {
  const base::SlotDepartures& departures = server_.departures();
  for (std::uint32_t i = 0; i < base::kSlotCount && calls_used_ < kCallsMax; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (!departures.departs(slot)) continue;
    const transport::Route route = engine_.route_of(slot);
    const bool is_known = std::any_of(calls_.begin(), calls_.begin() + calls_used_,
                                      [route](const Call& call) { return call.route == route; });
    if (is_known) continue;
    calls_[calls_used_] = {};
    calls_[calls_used_].route = route;
    calls_[calls_used_++].slot = slot;
  }
}

int MoveTeller::call_all(base::TimeNs now_ns) noexcept {
  int sent = 0;
  for (std::uint32_t at = 0; at < calls_used_; ++at) {
    Call& call = calls_[at];
    if (call.is_out || now_ns < call.resume_ns || call.failures >= config_.call_failures_max) {
      continue;
    }
    if (wanted_count_ + transport::kWantsPerCallMax > kWantedMax) break;
    send_call(call, now_ns);
    sent += call.is_out ? 1 : 0;
  }
  return sent;
}

void MoveTeller::send_call(Call& call, base::TimeNs now_ns) noexcept {
  const base::SlotDepartures& departures = server_.departures();
  if (!departures.departs(call.slot)) return;
  engine::Operation* const operation =
      new_message(now_ns, static_cast<std::uint64_t>(&call - calls_.data()));
  if (operation == nullptr) return;
  operation->header.epoch = departures.next[call.slot];
  for (std::uint32_t page = 0; page < transport::kWantsPerCallMax; ++page) {
    const std::uint64_t gone = page < call.gone_count ? call.gone[page] : 0;
    add(*operation, MovedNote::call, group_in(call.slot), {config_.shard, 0}, gone);
  }
  call.gone_count = 0;
  call.is_out = true;
  engine_.submit(*operation);
}

// ---- answers ----

void MoveTeller::on_complete(engine::Operation& operation) noexcept {
  if (operation.owner_data >> kBegunShift != begun_) return;
  const std::uint64_t number = operation.owner_data & ((std::uint64_t{1} << kBegunShift) - 1);
  if (number == kTellNumber) return end_tell(operation);
  SIMM_CHECK(number < calls_used_);
  end_call(operation, calls_[number]);
}

void MoveTeller::end_tell(const engine::Operation& operation) noexcept {
  SIMM_CHECK(tells_out_ > 0);
  --tells_out_;
  for (std::uint32_t at = 0; at < operation.page_count; ++at) {
    const Status status = operation.replies[at].status;
    // Who does not know what this is will not know it the next time either.
    has_failed_ |= status != Status::ok && status != Status::unsupported;
    // A daemon that stands holds up nobody's objects for longer than one message.
    if (status == Status::timeout) rounds_ = config_.rounds_max;
  }
}

void MoveTeller::end_call(const engine::Operation& operation, Call& call) noexcept {
  call.is_out = false;
  if (operation.replies[0].status != Status::ok) {
    const bool is_known = operation.replies[0].status != Status::unsupported;
    call.failures = is_known ? call.failures + 1 : config_.call_failures_max;
    call.resume_ns = clock_.now_ns() + config_.pause_ns * call.failures;
    return;
  }
  call.failures = 0;
  for (std::uint32_t at = 0; at < operation.page_count; ++at) {
    const std::uint64_t token = operation.replies[at].bytes;
    if (operation.replies[at].status == Status::ok && token != 0) take_wanted(call, token);
  }
}

void MoveTeller::take_wanted(Call& call, std::uint64_t token) noexcept {
  const auto record = static_cast<std::uint32_t>(token);
  store::DepartingObject object;
  const base::TimeNs until_ns = time_to_live_.needed_until_ns(clock_.now_ns());
  if (store_.departing().look_at(record, server_.departures(), until_ns, object) &&
      token == token_of(record, object.generation)) {
    // call_all() has left room for all answers but those of calls that were out already.
    if (wanted_count_ == kWantedMax) return;
    wanted_[(wanted_first_ + wanted_count_++) % kWantedMax] = record;
    counters_.wanted.add();
    return;
  }
  if (call.gone_count < call.gone.size()) call.gone[call.gone_count++] = token;
}

}  // namespace simm::moves
