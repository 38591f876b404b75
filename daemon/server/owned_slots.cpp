#include "daemon/server/owned_slots.h"

namespace simm::server {

bool OwnedSlots::use(const base::SlotOwnership& map) noexcept {
  if (map.epoch < map_.epoch) return false;
  bool lost = map_.epoch == 0;
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    const base::Epoch before = map_.since[slot];
    lost |= before != 0 && map.since[slot] != before;
    owned_[slot] = map.since[slot] != 0;
  }
  map_ = map;
  return lost;
}

}  // namespace simm::server
