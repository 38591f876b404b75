// SlotDepartures: the slots that one server has just lost, and whose objects may move on to the new
// owner. Of each it says which tenure of this server has ended, and which tenure follows directly
// on that one. Objects of any other time are never moved. Plain value, 256 KiB: keep it off the
// stack.
// Thread: any; a plain value.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/ids.h"

namespace simm::base {

struct SlotDepartures {
  // 0: the slot does not depart. Else the epoch from which on this server had owned it.
  std::array<Epoch, kSlotCount> since{};
  // Since when the new owner has it. The tenure that objects move into is this one and no other.
  std::array<Epoch, kSlotCount> next{};
  std::uint32_t slots = 0;  // that depart

  [[nodiscard]] bool departs(Slot slot) const noexcept { return since[slot] != 0; }
  // Whether an object that was stored under `epoch` is of the tenure that has ended.
  [[nodiscard]] bool covers(Slot slot, Epoch epoch) const noexcept {
    return since[slot] != 0 && since[slot] <= epoch;
  }
  // Those of one shard of this daemon's; null: there are none.
  [[nodiscard]] std::unique_ptr<SlotDepartures> of_shard(std::uint16_t shard,
                                                         std::uint16_t shards) const {
    auto part = std::make_unique<SlotDepartures>();
    for (std::uint32_t slot = shard; slot < kSlotCount; slot += shards) {
      if (since[slot] != 0) part->begin(static_cast<Slot>(slot), since[slot], next[slot]);
    }
    return part->slots == 0 ? nullptr : std::move(part);
  }
  void clear() noexcept {
    since.fill(0);
    next.fill(0);
    slots = 0;
  }
  void end(Slot slot) noexcept {
    if (since[slot] != 0) --slots;
    since[slot] = next[slot] = 0;
  }
  void begin(Slot slot, Epoch from, Epoch to) noexcept {
    if (since[slot] == 0) ++slots;
    since[slot] = from;
    next[slot] = to;
  }
};

}  // namespace simm::base
