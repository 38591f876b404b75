#include "daemon/server/slot_arrivals.h"

#include <bit>

#include "simm/check.h"

namespace simm::server {

SlotArrivals::SlotArrivals(std::uint32_t keys_max, base::TimeNs window_ns)
    : keys_max_(keys_max),
      window_ns_(window_ns),
      keys_(std::make_unique<base::LazyArray<std::uint64_t>>(std::size_t{2} * keys_max)) {
  SIMM_CHECK(std::has_single_bit(keys_max));
}

void SlotArrivals::use(const base::SlotOwnership& before, const base::SlotOwnership& now,
                       base::TimeNs now_ns) noexcept {
  look_at_time(now_ns);
  back_since_ = now.back_since;
  const bool is_back = back_since_ != before.back_since && back_since_ > served_until_;
  bool opens = false;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const base::Epoch since = now.since[i];
    const bool is_new = since != before.since[i];
    if (is_new) close(slot);
    if (since == 0 || window_ns_ == 0) continue;
    if (is_new && since > served_until_) {
      open(slot, since, false);
    } else if (is_back && since < back_since_ && !open_[slot]) {
      open(slot, back_since_, true);
    } else {
      opens |= is_back && open_[slot];  // for longer
      continue;
    }
    opens = true;
  }
  if (opens) ends_ns_ = now_ns + window_ns_;
  if (open_slots_ == 0) close_all();
}

void SlotArrivals::open(base::Slot slot, base::Epoch since, bool for_copies_only) noexcept {
  open_.set(slot);
  ++open_slots_;
  since_[slot] = since;
  takes_copies_only_[slot] = for_copies_only;
}

std::size_t SlotArrivals::place_of(std::uint64_t name) const noexcept {
  const std::size_t mask = std::size_t{2} * keys_max_ - 1;
  std::size_t at = name & mask;
  // Ends: half of the places are free.
  while ((*keys_)[at] != 0 && (*keys_)[at] != name) at = (at + 1) & mask;
  return at;
}

bool SlotArrivals::knows(std::uint64_t name) const noexcept {
  return (*keys_)[place_of(name)] != 0;
}

bool SlotArrivals::note_remove(base::Slot slot, base::KeyHash key, bool is_kept_twice) noexcept {
  if (!open_[slot]) return true;
  // What was removed before this daemon came back may have been put since, and be copied.
  const bool is_for_copies = is_kept_twice && back_since_ > since_[slot];
  if (is_for_copies && !remember(slot, name_of(key, back_since_))) return false;
  if (takes_copies_only_[slot] && !is_kept_twice) return true;
  return remember(slot, name_of(slot, key));
}

bool SlotArrivals::may_arrive(base::Slot slot, base::KeyHash key, base::Epoch since,
                              bool is_kept_twice) const noexcept {
  const bool is_of_tenure = since == since_[slot] && !takes_copies_only_[slot];
  const bool is_copy = is_kept_twice && since >= since_[slot] && since == back_since_;
  return open_[slot] && (is_of_tenure || is_copy) && !knows(name_of(key, since));
}

bool SlotArrivals::remember(base::Slot slot, std::uint64_t name) noexcept {
  const std::size_t at = place_of(name);
  if ((*keys_)[at] == name) return true;
  if (keys_known_ == keys_max_) {
    close(slot);
    return false;
  }
  (*keys_)[at] = name;
  ++keys_known_;
  return true;
}

void SlotArrivals::close(base::Slot slot) noexcept {
  if (!open_[slot]) return;
  open_.reset(slot);
  takes_copies_only_.reset(slot);
  --open_slots_;
}

// Only with the last open slot may keys be forgotten.
void SlotArrivals::close_all() noexcept {
  open_.reset();
  takes_copies_only_.reset();
  open_slots_ = 0;
  if (keys_known_ == 0) return;
  keys_known_ = 0;
  for (std::size_t at = 0; at < keys_->size(); ++at) (*keys_)[at] = 0;
}

}  // namespace simm::server
