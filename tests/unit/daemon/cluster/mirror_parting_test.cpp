// Maps of clusters that keep objects twice: mirrored slots at different members, at little cost.
#include "daemon/cluster/mirror_parting.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "daemon/base/replica.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace mirror_parting_test {

using namespace cluster_samples;

SlotMapPtr map_of(base::Epoch epoch, std::vector<MapMember> list, const SlotMapPtr& before,
                  Mirrors mirrors = Mirrors::apart) {
  return build_slot_map(epoch, std::move(list), before.get(), before.get(), {}, 0, mirrors).value();
}

std::vector<MapMember> members_of(std::uint32_t count, std::uint16_t shards) {
  std::vector<MapMember> made = members(count);
  for (MapMember& each : made) each.shards = shards;
  return made;
}

std::uint32_t lone_pairs(const SlotMap& map) {
  std::uint32_t pairs = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount / 2; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    pairs += map.owner(slot) == map.owner(base::mirror_of(slot)) ? 1u : 0u;
  }
  return pairs;
}

std::uint32_t moved_slots(const SlotMap& a, const SlotMap& b) {
  std::uint32_t moved = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    moved += a.owner_of(slot)->identity.name != b.owner_of(slot)->identity.name ? 1u : 0u;
  }
  return moved;
}

std::vector<std::uint32_t> shares_of(const SlotMap& map) {
  std::vector<std::uint32_t> shares;
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    shares.push_back(map.slot_count(static_cast<MemberIndex>(i)));
  }
  return shares;
}

// Every shard is as near to the mean of its member as the builder says: five percent, or one slot.
bool has_even_shards(const SlotMap& map) {
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    std::vector<std::uint32_t> loads(map.members()[i].shards);
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      if (map.owner(static_cast<base::Slot>(slot)) == i) ++loads[slot % loads.size()];
    }
    const double mean =
        map.slot_count(static_cast<MemberIndex>(i)) * 1.0 / static_cast<double>(loads.size());
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    if (*most > std::max(std::ceil(mean), mean * 1.05)) return false;
    if (*least < std::min(std::floor(mean), mean * 0.95)) return false;
  }
  return true;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace mirror_parting_test

TEST_CASE("members of one weight: no pair is alone, shares and shards are as even as without") {
  using namespace mirror_parting_test;
  for (const std::uint32_t count : {2u, 3u, 4u, 5u, 7u, 8u, 13u, 32u, 64u}) {
    for (const std::uint16_t shards : std::vector<std::uint16_t>{1, 2, 3, 7, 16}) {
      CAPTURE(count);
      CAPTURE(shards);
      const auto list = members_of(count, shards);
      const SlotMapPtr apart = map_of(1, list, nullptr);
      const SlotMapPtr anywhere = map_of(1, list, nullptr, Mirrors::anywhere);
      CHECK(lone_pairs(*apart) == 0);
      CHECK(lone_pairs(*anywhere) > 0);
      CHECK(shares_of(*apart) == shares_of(*anywhere));
      CHECK(has_even_shards(*apart));
    }
  }
}

TEST_CASE("a member with more than half of the slots keeps as few pairs as it can, others none") {
  using namespace mirror_parting_test;
  struct Case {
    std::vector<std::uint64_t> weights;
    std::uint16_t shards;
  };
  const std::vector<Case> cases = {
      {{1, 1}, 4},          {{2, 1, 1}, 4},    {{3, 2, 1}, 2},
      {{3, 1, 1}, 1},       {{3, 1, 1}, 4},    {{9, 1}, 3},
      {{9, 1, 1, 1}, 8},    {{100, 1, 1}, 2},  {{1}, 4},
      {{5, 4, 3, 2, 1}, 6}, {{50, 1, 49}, 16}, {{51, 1, 48}, 16},
      {{60, 1, 20, 19}, 5},
  };
  for (const Case& each : cases) {
    CAPTURE(each.weights[0]);
    CAPTURE(each.weights.size());
    std::vector<MapMember> list;
    for (std::size_t i = 0; i < each.weights.size(); ++i) {
      list.push_back(member("s" + std::to_string(i), i + 1, each.weights[i] * kGiB));
      list.back().shards = each.shards;
    }
    const SlotMapPtr map = map_of(1, list, nullptr);
    const auto shares = shares_of(*map);
    const std::uint32_t most = *std::max_element(shares.begin(), shares.end());
    constexpr std::uint32_t kHalf = base::kSlotCount / 2;
    CHECK(lone_pairs(*map) == (most > kHalf ? most - kHalf : 0));
    CHECK(shares == shares_of(*map_of(1, list, nullptr, Mirrors::anywhere)));
    CHECK(has_even_shards(*map));
    // Nothing moves when nothing has changed, with pairs that can not be parted as well.
    CHECK(moved_slots(*map, *map_of(2, list, map)) == 0);
  }
}

TEST_CASE("members of other numbers of shards and other weights: pairs apart, shards even") {
  using namespace mirror_parting_test;
  const std::vector<std::uint16_t> shards = {16, 12, 7, 1, 5, 24};
  std::vector<MapMember> list;
  for (std::uint32_t i = 0; i < 40; ++i) {
    list.push_back(member("s" + std::to_string(i), i + 1, kGiB * (1 + i % 4)));
    list.back().shards = shards[i % shards.size()];
  }
  const SlotMapPtr map = map_of(1, list, nullptr);
  CHECK(lone_pairs(*map) == 0);
  CHECK(has_even_shards(*map));
  CHECK(shares_of(*map) == shares_of(*map_of(1, list, nullptr, Mirrors::anywhere)));
  CHECK(moved_slots(*map, *map_of(2, list, map)) == 0);
}

TEST_CASE("a map that was made without it is parted once, by about a 2n-th of all slots") {
  using namespace mirror_parting_test;
  for (const std::uint32_t count : {2u, 4u, 10u, 40u}) {
    CAPTURE(count);
    const auto list = members_of(count, 4);
    const SlotMapPtr before = map_of(1, list, nullptr, Mirrors::anywhere);
    const SlotMapPtr parted = map_of(2, list, before);
    CHECK(lone_pairs(*parted) == 0);
    CHECK(shares_of(*parted) == shares_of(*before));
    CHECK(has_even_shards(*parted));
    // Of each pair that is parted one slot moves, and another one of somebody else for it.
    CHECK(moved_slots(*before, *parted) <= 2 * lone_pairs(*before));
    const double part = base::kSlotCount / (2.0 * count);
    CHECK(moved_slots(*before, *parted) < 2.5 * part);
    CHECK(moved_slots(*parted, *map_of(3, list, parted)) == 0);
  }
}

TEST_CASE("the order of the members makes no difference, and the same is made again") {
  using namespace mirror_parting_test;
  auto list = members_of(12, 5);
  const SlotMapPtr map = map_of(1, list, nullptr);
  std::mt19937_64 random(3);
  std::shuffle(list.begin(), list.end(), random);
  CHECK(*map == *map_of(1, list, nullptr));
  const SlotMapPtr joined = map_of(2, members_of(13, 5), map);
  CHECK(*joined == *map_of(2, members_of(13, 5), map));
}

TEST_CASE("pairs stay apart while members come and go, and little more moves than has to") {
  using namespace mirror_parting_test;
  const std::uint64_t seed = seed_of_run();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_cluster -tc='pairs stay apart*'");
  std::mt19937_64 random(seed);
  const std::uint64_t steps = 10 * simm::test_support::rounds_from("SIMM_ROUNDS", 6);
  const std::vector<std::uint16_t> shards = {16, 8, 12};
  std::vector<MapMember> list = members_of(12, 16);
  SlotMapPtr map = map_of(1, list, nullptr);
  for (base::Epoch epoch = 2; epoch < 2 + steps; ++epoch) {
    const std::size_t size = list.size();
    if (size > 3 && random() % 2 == 0) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(random() % size));
    } else {
      list.push_back(member("m" + std::to_string(epoch), 1000 + epoch));
      list.back().shards = shards[random() % shards.size()];
    }
    const SlotMapPtr next = map_of(epoch, list, map);
    const SlotMapPtr without = map_of(epoch, list, map, Mirrors::anywhere);
    REQUIRE(lone_pairs(*next) == 0);
    REQUIRE(has_even_shards(*next));
    REQUIRE(shares_of(*next) == shares_of(*without));
    REQUIRE(moved_slots(*map, *next) <= moved_slots(*map, *without) * 13 / 10 + 100);
    map = next;
  }
}

TEST_CASE("slots without an owner stay so, and one member alone keeps all") {
  using namespace mirror_parting_test;
  std::vector<MemberIndex> owners(base::kSlotCount, 0);
  const std::vector<MemberIndex> all = owners;
  part_mirrors(members(1), owners);
  CHECK(owners == all);
  // The second member has some slots to give; a pair of nobody is no pair.
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (slot % 4 == 1) owners[slot] = kNoMember;
    if (slot % 4 == 2) owners[slot] = 1;
  }
  const auto none_before = std::count(owners.begin(), owners.end(), kNoMember);
  part_mirrors(members(2), owners);
  CHECK(std::count(owners.begin(), owners.end(), kNoMember) == none_before);
  CHECK(std::count(owners.begin(), owners.end(), 1) == base::kSlotCount / 4);
  for (std::uint32_t slot = 1; slot < base::kSlotCount; slot += 4) {
    CHECK(owners[slot] == kNoMember);
  }
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (owners[slot] == 1) CHECK(owners[base::mirror_of(static_cast<base::Slot>(slot))] != 1);
  }
}

TEST_CASE("parting costs little: the most members, and shards that nobody can exchange") {
  using namespace mirror_parting_test;
  std::vector<MapMember> list = members_of(kMembersMax, 16);
  bool is_heavy = false;
  SUBCASE("1,024 members of one kind") {}
  SUBCASE("one with most of the slots, and no two members with the same shards") {
    list = members_of(16, 1);
    const std::vector<std::uint16_t> primes = {64, 61, 59, 53, 47, 43, 41, 37,
                                               31, 29, 23, 19, 17, 13, 11, 7};
    for (std::size_t i = 0; i < list.size(); ++i) list[i].shards = primes[i];
    list[0].weight_bytes = 200 * kGiB;
    is_heavy = true;
  }
  const double begun = cpu_seconds();
  const SlotMapPtr anywhere = map_of(1, list, nullptr, Mirrors::anywhere);
  const double without = cpu_seconds() - begun;
  const SlotMapPtr apart = map_of(1, list, nullptr);
  const double with = cpu_seconds() - begun - without;
  const SlotMapPtr parted = map_of(2, list, anywhere);
  const double once = cpu_seconds() - begun - without - with;
  MESSAGE("seconds: " << without << " without, " << with << " with, " << once
                      << " to part it once");
  CHECK(with < 3 * without + 1.5);
  CHECK(once < 3 * without + 1.5);
  if (!is_heavy) {
    CHECK(lone_pairs(*apart) == 0);
    CHECK(lone_pairs(*parted) == 0);
  }
}
