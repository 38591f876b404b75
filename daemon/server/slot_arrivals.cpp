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
  const bool opens = opens_ && window_ns_ > 0;
  opens_ = true;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    if (now.since[i] == before.since[i]) continue;
    const auto slot = static_cast<base::Slot>(i);
    close(slot);
    if (now.since[i] == 0 || !opens) continue;
    open_.set(slot);
    ++open_slots_;
    since_[slot] = now.since[i];
    ends_ns_ = now_ns + window_ns_;
  }
  if (open_slots_ == 0) close_all();
}

std::size_t SlotArrivals::place_of(std::uint64_t name) const noexcept {
  const std::size_t mask = std::size_t{2} * keys_max_ - 1;
  std::size_t at = name & mask;
  // Ends: half of the places are free.
  while ((*keys_)[at] != 0 && (*keys_)[at] != name) at = (at + 1) & mask;
  return at;
}

bool SlotArrivals::knows(base::Slot slot, base::KeyHash key) const noexcept {
  return (*keys_)[place_of(name_of(slot, key))] != 0;
}

bool SlotArrivals::remember(base::Slot slot, base::KeyHash key) noexcept {
  const std::uint64_t name = name_of(slot, key);
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
  --open_slots_;
}

// Only with the last open slot may keys be forgotten.
void SlotArrivals::close_all() noexcept {
  open_.reset();
  open_slots_ = 0;
  if (keys_known_ == 0) return;
  keys_known_ = 0;
  for (std::size_t at = 0; at < keys_->size(); ++at) (*keys_)[at] = 0;
}

}  // namespace simm::server
