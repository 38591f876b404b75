// SlotOwnership: which slots one server (one shard of one daemon) owns under a map, and since when.
// A slot that was lost and came back has a newer `since` than what was stored before. So nothing of
// the time before the loss can be taken for current. Plain value, 128 KiB: keep it off the stack.
//
// Whoever knows the whole row of maps says since when (a map that carries it); whoever sees one map
// after the other derives it with advance().
// Thread: any; a plain value.
#pragma once

#include <array>
#include <bitset>

#include "daemon/base/ids.h"

namespace simm::base {

using SlotSet = std::bitset<kSlotCount>;

struct SlotOwnership {
  Epoch epoch = 0;  // of the map
  // The map says which one it follows. So the owners before may tell what they have of the slots
  // that are new here.
  bool has_former_owners = false;
  // The map behind the last absence of this server's daemon: others offer it what it lacks since
  // then (cluster/slot_map.h). 0: it was never away.
  Epoch back_since = 0;
  // 0: not owned. Else the epoch of the first of the unbroken row of maps, up to this one, that
  // give the slot to this server.
  std::array<Epoch, kSlotCount> since{};

  [[nodiscard]] bool owns(Slot slot) const noexcept { return since[slot] != 0; }
  // From the map of epoch `from` on without a break, until this one.
  [[nodiscard]] bool owns_since(Slot slot, Epoch from) const noexcept {
    return since[slot] != 0 && since[slot] <= from;
  }

  // The next map. `unbroken`: it follows on this one without a map in between that this server has
  // not seen. If there may have been one, every slot may have had another owner meanwhile.
  void advance(Epoch next, const SlotSet& owned, bool unbroken) noexcept {
    for (std::uint32_t slot = 0; slot < kSlotCount; ++slot) {
      if (!owned[slot]) {
        since[slot] = 0;
      } else if (since[slot] == 0 || !unbroken) {
        since[slot] = next;
      }
    }
    epoch = next;
  }
};

}  // namespace simm::base
