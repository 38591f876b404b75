#include "daemon/moves/replica_mover.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::moves {
namespace {

// Of the object in a record, never 0.
std::uint32_t mark_of(std::uint64_t generation) noexcept {
  return static_cast<std::uint32_t>(generation % ~std::uint32_t{0}) + 1;
}

}  // namespace

ReplicaMover::ReplicaMover(const MoverConfig& config, base::ReplicatedNamespaces name_spaces,
                           store::Store& store, server::Server& server, engine::Engine& engine,
                           const base::Clock& clock, RefillCounters counters)
    : config_(config),
      name_spaces_(std::move(name_spaces)),
      store_(store),
      server_(server),
      clock_(clock),
      counters_(std::move(counters)),
      offers_(store, engine, clock, kBatchesMax, config.offer_ns, config.grace_ns,
              config.batch_bytes_max),
      budget_(config.bytes_per_s, clock),
      refills_(std::make_unique<base::SlotDepartures>()),
      answered_(std::size_t{store.records_max()} + 1) {}

// ---- when ----

void ReplicaMover::on_map(const base::SlotDepartures* refills) noexcept {
  if (refills == nullptr) {
    end();
    if (refills_->slots > 0) refills_->clear();
    return;
  }
  const bool has_new = has_new_slots(*refills);
  *refills_ = *refills;
  if (has_new) begin();
  counters_.slots.set(is_active_ ? refills_->slots : 0);
}

// Most maps bring none, and leave what is under way, or through, as it is.
bool ReplicaMover::has_new_slots(const base::SlotDepartures& refills) const noexcept {
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (!refills.departs(slot)) continue;
    if (refills.since[slot] != refills_->since[slot]) return true;
    if (refills.next[slot] != refills_->next[slot]) return true;
  }
  return false;
}

// All is looked through once more: new slots may have come to those that were under way.
void ReplicaMover::begin() noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  if (!is_active_) budget_.begin();
  is_active_ = true;
  ends_ns_ = now_ns + config_.window_ns;
  answered_.forget();
  pass_ = 0;
  next_ = 1;
  vain_rounds_ = 0;
  has_failed_ = has_answered_ = false;
  arrived_ = server_.arrived();
  pause_ns_ = config_.pause_min_ns;
  resume_ns_ = 0;
}

void ReplicaMover::end() noexcept {
  if (std::exchange(is_active_, false)) answered_.forget();
  counters_.slots.set(0);
}

int ReplicaMover::do_work() noexcept {
  if (!is_active_ || !server_.is_open()) return 0;
  const base::TimeNs now_ns = clock_.now_ns();
  if (now_ns >= ends_ns_) {
    end();
    return 1;
  }
  budget_.refill();
  int work = 0;
  while (is_active_ && offers_.out() < kBatchesMax && budget_.has_some() && now_ns >= resume_ns_) {
    const int looked = send_batch(now_ns);
    if (looked == 0) break;
    work += looked;
    if (work >= static_cast<int>(config_.records_per_turn)) break;
  }
  return work;
}

base::TimeNs ReplicaMover::next_deadline_ns() const noexcept {
  if (!is_active_ || !server_.is_open()) return base::kNoDeadline;
  if (offers_.out() == kBatchesMax) return ends_ns_;
  if (!budget_.has_some()) return std::min(ends_ns_, budget_.next_ns());
  return std::min(ends_ns_, std::max(resume_ns_, clock_.now_ns() + base::kNsPerMs));
}

// ---- what ----

int ReplicaMover::send_batch(base::TimeNs now_ns) noexcept {
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

int ReplicaMover::gather(engine::Operation& operation) noexcept {
  std::uint32_t looked = 0;
  store::DepartingObject object;
  for (; looked < config_.records_per_turn; ++looked, ++next_) {
    if (next_ > store_.records_highest()) {
      next_ = 1;
      // What is in the batch is not under way yet, and would be found again.
      if (++pass_ == kPasses || operation.page_count > 0) break;
    }
    if (!is_to_go(next_, object) || offers_.has(next_)) continue;
    Offer offer(object, refills_->next[object.slot]);
    offer.hash = base::replica_of(object.hash);
    offer.group = base::mirrored_group(object.group);
    offer.name_space = base::replica_of(object.name_space);
    if (!offers_.add(operation, next_, offer)) break;
  }
  return static_cast<int>(looked);
}

bool ReplicaMover::is_to_go(std::uint32_t record, store::DepartingObject& object) noexcept {
  const base::TimeNs until_ns = offers_.time_to_live().needed_until_ns(clock_.now_ns());
  if (!store_.departing().look_at(record, *refills_, until_ns, object)) return false;
  if (answered_[record] == mark_of(object.generation)) return false;
  // It is served meanwhile: what was not used in the first pass may be so in the second one.
  if (pass_ == 0 && !object.was_used) return false;
  return name_spaces_.has(object.tenant, object.name_space);
}

// ---- the answers ----

void ReplicaMover::on_complete(engine::Operation& operation) noexcept {
  ObjectOffers::Batch& batch = offers_.of(operation);
  SIMM_CHECK(batch.is_out);
  for (std::uint32_t at = 0; at < operation.page_count; ++at) {
    const transport::PageRequest& page = operation.pages[at];
    // A map may have come since it was offered, and with it another owner, who has nothing yet.
    const base::Slot slot = base::mirror_of(base::slot_of(page.group));
    const bool counts = is_active_ && refills_->next[slot] == operation.header.epoch;
    end_page(batch.pins[page.index], operation.replies[page.index].status, counts);
  }
  offers_.end(batch);
}

void ReplicaMover::end_page(const store::ReadPin& pin, Status status, bool counts) noexcept {
  store_.end_read(pin);
  if (is_undecided(status)) {
    counters_.failed.add();
    has_failed_ = true;
    resume_ns_ = clock_.now_ns() + pause_ns_;
    return;
  }
  if (status == Status::ok) {
    counters_.objects.add();
    counters_.bytes.add(pin.bytes.size());
  } else {
    counters_.refused.add();
  }
  if (!counts) return;
  answered_[pin.record] = mark_of(pin.generation);
  has_answered_ = true;
  vain_rounds_ = 0;
  pause_ns_ = config_.pause_min_ns;
}

void ReplicaMover::end_round(base::TimeNs now_ns) noexcept {
  const bool has_failed = std::exchange(has_failed_, false);
  const bool comes_more =
      std::exchange(arrived_, server_.arrived()) != server_.arrived() || server_.awaits_objects();
  if (!has_failed && !comes_more) return end();
  const bool was_in_vain = !std::exchange(has_answered_, false) && has_failed;
  if (was_in_vain && ++vain_rounds_ >= config_.vain_rounds_max) return end();
  pause_ns_ = std::min(2 * pause_ns_, config_.pause_max_ns);
  resume_ns_ = now_ns + pause_ns_;
  pass_ = 0;
  next_ = 1;
}

}  // namespace simm::moves
