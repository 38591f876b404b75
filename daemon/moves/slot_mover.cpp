#include "daemon/moves/slot_mover.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::moves {

SlotMover::SlotMover(const MoverConfig& config, store::Store& store, server::Server& server,
                     engine::Engine& engine, const base::Clock& clock, MoverCounters counters)
    : config_(config),
      store_(store),
      server_(server),
      clock_(clock),
      counters_(std::move(counters)),
      offers_(store, engine, clock, kBatchesMax + kWantedBatchesMax, config.offer_ns,
              config.grace_ns, config.batch_bytes_max),
      teller_(config.teller, offers_.time_to_live(), store, server, engine, clock, counters_),
      budget_(config.bytes_per_s, clock) {}

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
    budget_.begin();
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

int SlotMover::do_work() noexcept {
  if (!is_active_ || !server_.is_open()) return 0;
  const base::TimeNs now_ns = clock_.now_ns();
  if (now_ns >= ends_ns_) {
    end(true);
    return 1;
  }
  budget_.refill();
  int work = teller_.do_work(now_ns) + send_wanted(now_ns);
  // A reader who misses what was sent before it was told would not wait for it.
  if (!teller_.has_told()) return work;
  while (is_active_ && offers_.out() - wanted_out_ < kBatchesMax && budget_.has_some() &&
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
  if (!teller_.has_told() || offers_.out() - wanted_out_ == kBatchesMax) return next_ns;
  if (!budget_.has_some()) return std::min(next_ns, budget_.next_ns());
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

int SlotMover::send_batch(base::TimeNs now_ns) noexcept {
  if (pass_ == kPasses) {
    if (offers_.out() == 0) end_round(now_ns);
    return 0;
  }
  engine::Operation* const operation = offers_.begin(*this, now_ns);
  if (operation == nullptr) return 0;
  const int looked = gather(*operation);
  const std::uint64_t bytes = offers_.submit(*operation);
  budget_.spend(bytes);
  return bytes == 0 ? std::max(looked, 1) : looked;
}

int SlotMover::gather(engine::Operation& operation) noexcept {
  const base::SlotDepartures& departures = server_.departures();
  const base::TimeNs until_ns = offers_.time_to_live().needed_until_ns(clock_.now_ns());
  std::uint32_t looked = 0;
  store::DepartingObject object;
  for (; looked < config_.records_per_turn; ++looked, ++next_) {
    if (next_ > store_.records_highest()) {
      next_ = 1;
      if (++pass_ == kPasses) break;
    }
    if (!store_.departing().look_at(next_, departures, until_ns, object)) continue;
    if (pass_of(object) != pass_) continue;
    if (!offers_.has(next_) && !add(operation, next_, object)) break;
  }
  return static_cast<int>(looked);
}

bool SlotMover::add(engine::Operation& operation, std::uint32_t record,
                    const store::DepartingObject& object) noexcept {
  return offers_.add(operation, record, Offer(object, server_.departures().next[object.slot]));
}

// ---- what somebody waits for ----

// It waits for no pause and no budget. The others pay for it.
int SlotMover::send_wanted(base::TimeNs now_ns) noexcept {
  int sent = 0;
  while (wanted_out_ < kWantedBatchesMax && teller_.wanted() > 0) {
    engine::Operation* const operation = offers_.begin(*this, now_ns);
    if (operation == nullptr) break;
    gather_wanted(*operation);
    offers_.of(*operation).is_wanted = operation->page_count > 0;
    if (operation->page_count > 0) ++wanted_out_;
    budget_.spend(offers_.submit(*operation));
    ++sent;
  }
  budget_.forgive();
  return sent;
}

void SlotMover::gather_wanted(engine::Operation& operation) noexcept {
  const base::TimeNs until_ns = offers_.time_to_live().needed_until_ns(clock_.now_ns());
  store::DepartingObject object;
  while (teller_.wanted() > 0) {
    const std::uint32_t record = teller_.first_wanted();
    if (!offers_.has(record) &&
        store_.departing().look_at(record, server_.departures(), until_ns, object) &&
        !add(operation, record, object)) {
      return;
    }
    teller_.drop_first_wanted();
  }
}

// ---- the answers ----

void SlotMover::on_complete(engine::Operation& operation) noexcept {
  ObjectOffers::Batch& batch = offers_.of(operation);
  SIMM_CHECK(batch.is_out);
  for (std::uint32_t at = 0; at < operation.page_count; ++at) {
    end_page(batch.pins[at], operation.replies[at].status);
  }
  offers_.end(batch);
  if (batch.is_wanted) --wanted_out_;
}

void SlotMover::end_page(const store::ReadPin& pin, Status status) noexcept {
  if (is_undecided(status)) {
    counters_.failed.add();
    has_failed_ = true;
    resume_ns_ = clock_.now_ns() + pause_ns_;
    return store_.end_read(pin);
  }
  if (status == Status::ok) {
    counters_.objects.add();
    counters_.bytes.add(pin.bytes.size());
  } else {
    counters_.refused.add();
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
