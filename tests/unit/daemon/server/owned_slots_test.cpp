#include "daemon/server/owned_slots.h"

#include <doctest/doctest.h>

namespace owned_slots_test {

using namespace simm;
using server::OwnedSlots;

constexpr std::uint64_t kGroup = 7;

// The map of that epoch, which goes on from `map` without a break, with or without kGroup's slot.
void advance(base::SlotOwnership& map, base::Epoch epoch, bool owned) {
  base::SlotSet slots;
  slots.set();
  slots[base::slot_of(kGroup)] = owned;
  map.advance(epoch, slots, true);
}

TEST_CASE("a slot is served to those who know it is here, not to those who know an owner before") {
  base::SlotOwnership map;
  OwnedSlots slots;
  advance(map, 3, true);
  CHECK(slots.use(map));  // objects of an earlier life may be of any slot
  CHECK(slots.serves(3, kGroup));
  CHECK_FALSE(slots.serves(2, kGroup));
  advance(map, 4, true);
  CHECK_FALSE(slots.use(map));
  CHECK(slots.serves(3, kGroup));
  CHECK(slots.serves(4, kGroup));
}

TEST_CASE("a slot that was lost and came back is served from its coming back on") {
  base::SlotOwnership map;
  OwnedSlots slots;
  advance(map, 3, true);
  (void)slots.use(map);
  advance(map, 4, false);
  CHECK(slots.use(map));
  CHECK_FALSE(slots.serves(3, kGroup));
  CHECK_FALSE(slots.serves(4, kGroup));
  advance(map, 5, true);
  CHECK_FALSE(slots.use(map));  // the loss was told before
  CHECK_FALSE(slots.serves(3, kGroup));
  CHECK(slots.serves(5, kGroup));
}

TEST_CASE("a loss between two maps that were seen is told by the second one") {
  base::SlotOwnership map;
  OwnedSlots slots;
  advance(map, 3, true);
  (void)slots.use(map);
  advance(map, 4, false);  // this one never arrives
  advance(map, 5, true);
  CHECK(slots.use(map));
  CHECK_FALSE(slots.serves(4, kGroup));
}

TEST_CASE("a map that is older than the last one is ignored") {
  base::SlotOwnership old;
  advance(old, 3, true);
  base::SlotOwnership map = old;
  advance(map, 4, false);
  OwnedSlots slots;
  (void)slots.use(map);
  CHECK_FALSE(slots.use(old));
  CHECK(slots.epoch() == 4);
  CHECK_FALSE(slots.serves(4, kGroup));
}

}  // namespace owned_slots_test
