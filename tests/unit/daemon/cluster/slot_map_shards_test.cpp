// How even the shards of a map are. Memory is shared out evenly to the shards of a member, so the
// fullest shard decides how much of the pool is of use.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "daemon/cluster/slot_map.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace slot_map_shards_test {

using namespace cluster_samples;

std::vector<MapMember> members_of(std::uint32_t count, std::uint16_t shards) {
  std::vector<MapMember> made = members(count);
  for (MapMember& each : made) each.shards = shards;
  return made;
}

std::vector<std::uint32_t> loads_of(const SlotMap& map, std::size_t member) {
  std::vector<std::uint32_t> loads(map.members()[member].shards);
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (map.owner(static_cast<base::Slot>(slot)) == member) ++loads[slot % loads.size()];
  }
  return loads;
}

// The fullest shard of all members over the mean of its member, and shards without a slot.
struct Evenness {
  double fullest = 0;
  std::uint32_t empty = 0;
};

Evenness evenness_of(const SlotMap& map) {
  Evenness found;
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    const auto loads = loads_of(map, i);
    const double mean = double{map.slot_count(static_cast<MemberIndex>(i)) * 1.0} /
                        static_cast<double>(loads.size());
    found.fullest = std::max(found.fullest, *std::max_element(loads.begin(), loads.end()) / mean);
    found.empty += static_cast<std::uint32_t>(std::count(loads.begin(), loads.end(), 0u));
  }
  return found;
}

// Every shard is as near to the mean of its member as the builder says: five percent, or one slot.
bool is_even(const SlotMap& map) {
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    const auto loads = loads_of(map, i);
    const double mean =
        map.slot_count(static_cast<MemberIndex>(i)) * 1.0 / static_cast<double>(loads.size());
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    if (*most > std::max(std::ceil(mean), mean * 1.05)) return false;
    if (*least < std::min(std::floor(mean), mean * 0.95)) return false;
  }
  return true;
}

std::uint32_t moved_slots(const SlotMap& a, const SlotMap& b) {
  std::uint32_t moved = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    moved += a.owner_of(slot)->identity.name != b.owner_of(slot)->identity.name;
  }
  return moved;
}

// As releases made maps that did not look at shards: any slot, the shares alone even.
SlotMapPtr shuffled_map(const std::vector<MapMember>& list) {
  std::mt19937_64 random(7);
  std::vector<SlotOwner> owners(base::kSlotCount);
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    owners[i] = {static_cast<MemberIndex>(i % list.size()), 1};
  }
  std::shuffle(owners.begin(), owners.end(), random);
  return SlotMap::make(1, list, owners).value();
}

}  // namespace slot_map_shards_test

TEST_CASE("the shards of a member have the same number of slots, as far as the slots go") {
  using namespace slot_map_shards_test;
  struct Shape {
    std::uint32_t members;
    std::uint16_t shards;
  };
  for (const Shape shape : {Shape{16, 16}, Shape{64, 16}, Shape{256, 16}, Shape{1024, 16},
                            Shape{3, 64}, Shape{256, 64}}) {
    CAPTURE(shape.members);
    CAPTURE(shape.shards);
    const auto list = members_of(shape.members, shape.shards);
    const Evenness found = evenness_of(*slot_map_of(1, list, nullptr, nullptr));
    CHECK(found.fullest <= 1.1);
    CHECK(found.empty == 0);
  }
  // Slots run out: 16 for the 64 shards of each member. As many shards have one, the others none.
  const SlotMapPtr scarce = slot_map_of(1, members_of(1024, 64), nullptr, nullptr);
  CHECK(evenness_of(*scarce).empty == 1024 * 48);
  CHECK(is_even(*scarce));
}

TEST_CASE("members of other numbers of shards and other weights are as even") {
  using namespace slot_map_shards_test;
  std::vector<MapMember> list;
  const std::vector<std::uint16_t> shards = {16, 12, 7, 1, 5, 24};
  for (std::uint32_t i = 0; i < 40; ++i) {
    list.push_back(member("s" + std::to_string(i), i + 1, kGiB * (1 + i % 4)));
    list.back().shards = shards[i % shards.size()];
  }
  const SlotMapPtr map = slot_map_of(1, list, nullptr, nullptr);
  CHECK(evenness_of(*map).fullest <= 1.1);
  CHECK(is_even(*map));
}

TEST_CASE("a map of uneven shards is made even once, and then nothing moves") {
  using namespace slot_map_shards_test;
  const auto list = members_of(64, 16);
  const SlotMapPtr uneven = shuffled_map(list);
  CHECK(evenness_of(*uneven).fullest > 1.5);
  const SlotMapPtr even = slot_map_of(2, list, uneven.get(), uneven.get());
  CHECK(evenness_of(*even).fullest <= 1.1);
  MESSAGE("moved of 16384: " << moved_slots(*uneven, *even));
  CHECK(moved_slots(*uneven, *even) < base::kSlotCount * 15 / 100);
  CHECK(moved_slots(*even, *slot_map_of(3, list, even.get(), even.get())) == 0);
}

TEST_CASE("shards stay even while members come and go, and little more moves than has to") {
  using namespace slot_map_shards_test;
  const std::uint64_t seed = seed_of_run();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_cluster -tc='shards stay even*'");
  std::mt19937_64 random(seed);
  const std::uint64_t steps = 10 * simm::test_support::rounds_from("SIMM_ROUNDS", 6);
  const std::vector<std::uint16_t> shards = {16, 8, 12};
  std::vector<MapMember> list = members_of(30, 16);
  SlotMapPtr map = slot_map_of(1, list, nullptr, nullptr);
  for (base::Epoch epoch = 2; epoch < 2 + steps; ++epoch) {
    const std::size_t size = list.size();
    if (size > 4 && random() % 2 == 0) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(random() % size));
    } else {
      list.push_back(member("m" + std::to_string(epoch), 1000 + epoch));
      list.back().shards = shards[random() % shards.size()];
    }
    const SlotMapPtr next = slot_map_of(epoch, list, map.get(), map.get());
    REQUIRE(is_even(*next));
    // One member came or went: its part moves, and a few slots for the sake of shards.
    const std::uint32_t part =
        base::kSlotCount / static_cast<std::uint32_t>(std::min(size, list.size()));
    std::uint32_t lost = 0;
    for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
      const auto slot = static_cast<base::Slot>(i);
      lost += map->owner_of(slot)->identity.name != next->owner_of(slot)->identity.name;
    }
    REQUIRE(lost <= part * 12 / 10 + 60);
    map = next;
  }
}
