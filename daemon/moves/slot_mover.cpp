#include "daemon/moves/slot_mover.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/store/eviction/depth_queue.h"
#include "simm/check.h"

namespace simm::moves {
namespace {

// So much may be sent at once after a pause, in time.
constexpr base::TimeNs kBurstNs = 20 * base::kNsPerMs;

}  // namespace

SlotMover::SlotMover(const MoverConfig& config, store::Store& store, server::Server& server,
                     engine::Engine& engine, const base::Clock& clock, MoverCounters counters)
    : config_(config),
      store_(store),
      server_(server),
      engine_(engine),
      clock_(clock),
      counters_(std::move(counters)),
      teller_(config.teller, store, server, engine, clock, counters_) {
  region_.base = store.arena().data();
  region_.length = store.arena().size();
  region_.can_fault = false;
  static_assert(std::tuple_size_v<decltype(depths_)> == store::DepthQueue::kSteps);
  std::uint32_t step = 0;
  for (std::uint32_t depth = 1; step + 1 < depths_.size() && depth < (1u << 20);
       depth += 1 + depth / 64) {
    const std::uint32_t at = store::DepthQueue::step_of(depth);
    for (; step < at; ++step) depths_[step + 1] = depth;
  }
}

// ---- when ----

void SlotMover::on_map() noexcept {
  const std::uint32_t slots = server_.departures().slots;
  counters_.departing_slots.set(slots);
  if (slots == 0) {
    is_active_ = false;
    return teller_.end();
  }
  const base::TimeNs now_ns = clock_.now_ns();
  // New slots may have come to those that were on their way: all is looked through once more.
  if (!is_active_) {
    ends_ns_ = now_ns + config_.window_ns;
    filled_ns_ = now_ns;
    budget_bytes_ = 0;
  }
  is_active_ = true;
  pass_ = 0;
  next_ = 1;
  vain_rounds_ = 0;
  has_failed_ = has_ended_ = false;
  pause_ns_ = config_.pause_min_ns;
  resume_ns_ = 0;
  teller_.begin();
}

void SlotMover::end(bool is_early) noexcept {
  if (is_early) counters_.cold_slots.add(server_.departures().slots);
  is_active_ = false;
  teller_.end();
  server_.end_departures();
  counters_.departing_slots.set(0);
}

void SlotMover::refill(base::TimeNs now_ns) noexcept {
  const auto burst = static_cast<std::int64_t>(
      std::max<std::uint64_t>(config_.bytes_per_s / (base::kNsPerSecond / kBurstNs), 1));
  const base::TimeNs passed_ns = std::min(now_ns - filled_ns_, base::kNsPerSecond);
  // In steps that are worth a byte at least, or nothing would ever come together.
  const std::uint64_t bytes = config_.bytes_per_s / 1000 * (passed_ns / (base::kNsPerMs / 10)) / 10;
  if (bytes == 0) return;
  filled_ns_ = now_ns;
  budget_bytes_ = std::min(budget_bytes_ + static_cast<std::int64_t>(bytes), burst);
}

int SlotMover::do_work() noexcept {
  if (!is_active_ || !server_.is_open()) return 0;
  const base::TimeNs now_ns = clock_.now_ns();
  if (now_ns >= ends_ns_) {
    end(true);
    return 1;
  }
  refill(now_ns);
  int work = teller_.do_work(now_ns) + send_wanted(now_ns);
  // A reader who misses what was sent before it was told would not wait for it.
  if (!teller_.has_told()) return work;
  while (is_active_ && batches_out_ - wanted_out_ < kBatchesMax && budget_bytes_ > 0 &&
         now_ns >= resume_ns_) {
    const int looked = send_batch(now_ns);
    if (looked == 0) break;
    work += looked;
    if (work >= static_cast<int>(config_.records_per_turn)) break;
  }
  return work;
}

base::TimeNs SlotMover::next_deadline_ns() const noexcept {
  if (!is_active_ || !server_.is_open()) return base::kNoDeadline;
  const base::TimeNs next_ns = std::min(ends_ns_, teller_.next_deadline_ns());
  if (!teller_.has_told() || batches_out_ - wanted_out_ == kBatchesMax) return next_ns;
  if (budget_bytes_ <= 0) return std::min(next_ns, filled_ns_ + base::kNsPerMs);
  return std::min(next_ns, std::max(resume_ns_, clock_.now_ns() + base::kNsPerMs));
}

// ---- what ----

std::uint32_t SlotMover::pass_of(const store::DepartingObject& object) noexcept {
  constexpr std::uint8_t kHeadStepMax = 12;  // some eight pages
  constexpr std::uint8_t kNearStepMax = 24;  // some sixty
  std::uint32_t pass = 2;
  if (object.depth_step <= kNearStepMax) pass = 1;
  if (object.depth_step != 0 && object.depth_step <= kHeadStepMax) pass = 0;
  return pass + (object.was_used ? 0 : 1);
}

engine::Operation* SlotMover::new_batch(base::TimeNs now_ns, Batch*& batch,
                                        bool is_wanted) noexcept {
  engine::Operation* const operation = engine_.allocate_fetch();
  if (operation == nullptr) return nullptr;
  const auto free =
      std::find_if(batches_.begin(), batches_.end(), [](const Batch& one) { return !one.is_out; });
  SIMM_CHECK(free != batches_.end());
  batch = &*free;
  batch->is_wanted = is_wanted;
  batch->count = 0;
  operation->header.opcode = ipc::Opcode::put;
  operation->header.put_mode = ipc::PutMode::if_absent;
  operation->header.is_moved = true;
  operation->header.deadline_ns = now_ns + config_.offer_ns;
  operation->owner = this;
  operation->owner_data = static_cast<std::uint64_t>(free - batches_.begin());
  gathered_bytes_ = gathered_key_bytes_ = 0;
  return operation;
}

void SlotMover::submit(engine::Operation& operation, Batch& batch) noexcept {
  if (operation.page_count == 0) return engine_.release(operation);
  batch.is_out = true;
  ++batches_out_;
  if (batch.is_wanted) ++wanted_out_;
  budget_bytes_ -= static_cast<std::int64_t>(gathered_bytes_);
  engine_.submit(operation);
}

int SlotMover::send_batch(base::TimeNs now_ns) noexcept {
  if (pass_ == kPasses) {
    if (batches_out_ == 0) end_round(now_ns);
    return 0;
  }
  Batch* batch = nullptr;
  engine::Operation* const operation = new_batch(now_ns, batch, false);
  if (operation == nullptr) return 0;
  const int looked = gather(*operation, *batch);
  const bool is_empty = operation->page_count == 0;
  submit(*operation, *batch);
  return is_empty ? std::max(looked, 1) : looked;
}

int SlotMover::gather(engine::Operation& operation, Batch& batch) noexcept {
  const base::SlotDepartures& departures = server_.departures();
  std::uint32_t looked = 0;
  store::DepartingObject object;
  for (; looked < config_.records_per_turn; ++looked, ++next_) {
    if (next_ > store_.records_highest()) {
      next_ = 1;
      if (++pass_ == kPasses) break;
    }
    if (!store_.departing().look_at(next_, departures, object) || pass_of(object) != pass_)
      continue;
    if (!is_on_its_way(next_) && !add(operation, batch, next_, object)) break;
  }
  return static_cast<int>(looked);
}

bool SlotMover::add(engine::Operation& operation, Batch& batch, std::uint32_t record,
                    store::DepartingObject& object) noexcept {
  transport::RequestHeader& header = operation.header;
  const base::Epoch into = server_.departures().next[object.slot];
  if (operation.page_count == 0) {
    header.tenant = object.tenant;
    header.name_space = object.name_space;
    header.epoch = into;
  } else if (operation.page_count == kPagesMax ||
             gathered_bytes_ + object.length > config_.batch_bytes_max ||
             gathered_key_bytes_ + object.key.size() > operation.key_bytes.size() ||
             object.tenant != header.tenant || object.name_space != header.name_space ||
             into != header.epoch) {
    return false;
  }
  char* const key = operation.key_bytes.data() + gathered_key_bytes_;
  std::memcpy(key, object.key.data(), object.key.size());
  gathered_key_bytes_ += static_cast<std::uint32_t>(object.key.size());
  gathered_bytes_ += object.length;
  const std::uint32_t at = operation.page_count++;
  batch.pins[at] = store_.departing().pin(record);
  batch.count = operation.page_count;
  transport::PageRequest page;
  page.key = key;
  page.key_bytes = static_cast<std::uint32_t>(object.key.size());
  page.depth = depths_[std::min<std::size_t>(object.depth_step, depths_.size() - 1)];
  page.digest = object.digest;
  page.slice = {&region_, static_cast<std::uint64_t>(batch.pins[at].bytes.data() - region_.base),
                object.length};
  page.index = static_cast<std::uint16_t>(at);
  operation.pages[at] = page;
  return true;
}

// ---- what somebody waits for ----

bool SlotMover::is_on_its_way(std::uint32_t record) const noexcept {
  if (batches_out_ == 0) return false;
  return std::any_of(batches_.begin(), batches_.end(), [record](const Batch& batch) {
    const auto pins = std::span(batch.pins).first(batch.is_out ? batch.count : 0);
    return std::any_of(pins.begin(), pins.end(),
                       [record](const store::ReadPin& pin) { return pin.record == record; });
  });
}

// It waits for no pause and no budget. The others pay for it.
int SlotMover::send_wanted(base::TimeNs now_ns) noexcept {
  int sent = 0;
  while (wanted_out_ < kWantedBatchesMax && teller_.wanted() > 0) {
    Batch* batch = nullptr;
    engine::Operation* const operation = new_batch(now_ns, batch, true);
    if (operation == nullptr) break;
    gather_wanted(*operation, *batch);
    submit(*operation, *batch);
    ++sent;
  }
  const auto debt_max = static_cast<std::int64_t>(config_.bytes_per_s);
  budget_bytes_ = std::max(budget_bytes_, -debt_max);
  return sent;
}

void SlotMover::gather_wanted(engine::Operation& operation, Batch& batch) noexcept {
  store::DepartingObject object;
  while (teller_.wanted() > 0) {
    const std::uint32_t record = teller_.first_wanted();
    if (!is_on_its_way(record) &&
        store_.departing().look_at(record, server_.departures(), object) &&
        !add(operation, batch, record, object)) {
      return;
    }
    teller_.drop_first_wanted();
  }
}

// ---- the answers ----

void SlotMover::on_complete(engine::Operation& operation) noexcept {
  Batch& batch = batches_[operation.owner_data];
  SIMM_CHECK(batch.is_out);
  for (std::uint32_t at = 0; at < operation.page_count; ++at) {
    end_page(batch.pins[at], operation.replies[at].status);
  }
  batch.is_out = false;
  --batches_out_;
  if (batch.is_wanted) --wanted_out_;
}

void SlotMover::end_page(const store::ReadPin& pin, Status status) noexcept {
  switch (status) {
    case Status::ok:
      counters_.objects.add();
      counters_.bytes.add(pin.bytes.size());
      break;
    case Status::unreachable:  // or another map is coming
    case Status::timeout:
    case Status::transfer_failed:
    case Status::out_of_memory:
      counters_.failed.add();
      has_failed_ = true;
      resume_ns_ = clock_.now_ns() + pause_ns_;
      return store_.end_read(pin);
    default:
      counters_.refused.add();
      break;
  }
  has_ended_ = true;
  vain_rounds_ = 0;
  pause_ns_ = config_.pause_min_ns;
  store_.departing().drop(pin, server_.departures());
  store_.end_read(pin);
}

void SlotMover::end_round(base::TimeNs now_ns) noexcept {
  if (!std::exchange(has_failed_, false)) return end(false);
  if (!std::exchange(has_ended_, false) && ++vain_rounds_ >= config_.vain_rounds_max) {
    return end(true);
  }
  pause_ns_ = std::min(2 * pause_ns_, config_.pause_max_ns);
  resume_ns_ = now_ns + pause_ns_;
  pass_ = 0;
  next_ = 1;
}

}  // namespace simm::moves
