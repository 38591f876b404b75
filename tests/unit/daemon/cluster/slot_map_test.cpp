#include "daemon/cluster/slot_map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "daemon/cluster/map_ownership.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace slot_map_test {

using namespace cluster_samples;

double share_of(const SlotMap& map, const MapMember& member) {
  double sum = 0;
  for (const MapMember& each : map.members()) sum += static_cast<double>(each.weight_bytes);
  return base::kSlotCount * static_cast<double>(member.weight_bytes) / sum;
}

// How far the worst member is from its share: in slots, and in percent of the share.
struct Imbalance {
  double slots = 0;
  double percent = 0;
};

Imbalance imbalance_of(const SlotMap& map) {
  Imbalance worst;
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    const double share = share_of(map, map.members()[i]);
    const double off = std::abs(map.slot_count(static_cast<MemberIndex>(i)) - share);
    worst.slots = std::max(worst.slots, off);
    worst.percent = std::max(worst.percent, 100 * off / share);
  }
  return worst;
}

std::string owner_name(const SlotMap& map, std::uint32_t slot) {
  const MapMember* owner = map.owner_of(static_cast<base::Slot>(slot));
  return owner == nullptr ? "" : owner->identity.name;
}

std::uint32_t moved_slots(const SlotMap& a, const SlotMap& b) {
  std::uint32_t moved = 0;
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    moved += owner_name(a, slot) != owner_name(b, slot);
  }
  return moved;
}

std::map<std::string, std::uint32_t> counts_of(const SlotMap& map) {
  std::map<std::string, std::uint32_t> counts;
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    counts[map.members()[i].identity.name] = map.slot_count(static_cast<MemberIndex>(i));
  }
  return counts;
}

// What has to move at least, if every member is to end up next to its share: what the poor lack, or
// what the rich and the departed have too much, whichever is more.
std::uint32_t least_movement(const SlotMap& a, const SlotMap& b) {
  auto before = counts_of(a);
  std::uint32_t lacking = 0;
  std::uint32_t kept = 0;
  for (const MapMember& member : b.members()) {
    const double share = share_of(b, member);
    const std::uint32_t have = before[member.identity.name];
    const auto low = static_cast<std::uint32_t>(share + 1e-9);
    const auto high = static_cast<std::uint32_t>(std::ceil(share - 1e-9));
    lacking += low > have ? low - have : 0;
    kept += std::min(have, high);
  }
  return std::max(lacking, base::kSlotCount - kept);
}

}  // namespace slot_map_test

TEST_CASE("every member gets its share, within two percent or one slot") {
  using namespace slot_map_test;
  for (const std::uint32_t count : {1u, 2u, 3u, 7u, 16u, 100u}) {
    const SlotMapPtr map = slot_map_of(1, members(count), nullptr, nullptr);
    CHECK(imbalance_of(*map).slots < 1);
    CHECK(imbalance_of(*map).percent <= 2);
  }
}

TEST_CASE("extreme weights: shares hold, nobody is off by a whole slot, tiny ones get nothing") {
  using namespace slot_map_test;
  const std::vector<std::uint64_t> heavy = {kWeightBytesMax, 1, kWeightBytesMax / 3, 4096};
  std::vector<MapMember> odd;
  for (std::size_t i = 0; i < heavy.size(); ++i) {
    odd.push_back(member("w" + std::to_string(i), i + 1, heavy[i]));
  }
  const SlotMapPtr map = slot_map_of(1, odd, nullptr, nullptr);
  CHECK(imbalance_of(*map).slots < 1);
  CHECK(counts_of(*map)["w1"] == 0);
  CHECK(counts_of(*map)["w0"] == 12288);
  CHECK(counts_of(*map)["w2"] == 4096);

  // As many members as there may be, as heavy as they may be: 16 slots each, exactly.
  auto all_heaviest = members(kMembersMax, kWeightBytesMax);
  CHECK(imbalance_of(*slot_map_of(1, all_heaviest, nullptr, nullptr)).slots == 0);
}

TEST_CASE("one of equals comes: only the newcomer gets slots") {
  using namespace slot_map_test;
  const SlotMapPtr before = slot_map_of(1, members(4), nullptr, nullptr);
  const SlotMapPtr after = slot_map_of(2, members(5), before.get(), before.get());
  const std::uint32_t got = counts_of(*after)["s4"];
  CHECK(moved_slots(*before, *after) == got);
  CHECK(got >= base::kSlotCount / 5);
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (owner_name(*before, slot) == owner_name(*after, slot)) continue;
    REQUIRE(owner_name(*after, slot) == "s4");
  }
}

TEST_CASE("one goes: only its slots move; it comes back: it gets most of them back") {
  using namespace slot_map_test;
  const SlotMapPtr whole = slot_map_of(1, members(5), nullptr, nullptr);
  const SlotMapPtr less = slot_map_of(2, members(4), whole.get(), whole.get());
  CHECK(moved_slots(*whole, *less) == counts_of(*whole)["s4"]);
  const SlotMapPtr again = slot_map_of(3, members(5), less.get(), less.get());
  CHECK(moved_slots(*less, *again) == counts_of(*again)["s4"]);
  std::uint32_t same = 0;
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    same += owner_name(*whole, slot) == "s4" && owner_name(*again, slot) == "s4";
  }
  CHECK(same > counts_of(*whole)["s4"] * 6 / 10);
}

TEST_CASE("a restarted daemon keeps its slots and none of its tenures") {
  using namespace slot_map_test;
  const SlotMapPtr before = slot_map_of(4, members(3), nullptr, nullptr);
  auto changed = members(3);
  changed[1].identity.incarnation = incarnation(99);
  const SlotMapPtr after = slot_map_of(5, changed, before.get(), before.get());
  CHECK(moved_slots(*before, *after) == 0);
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    const bool restarted = owner_name(*after, slot) == "s1";
    REQUIRE(after->since(static_cast<base::Slot>(slot)) == (restarted ? 5u : 4u));
  }
}

TEST_CASE("a slot that goes and comes back is not owned without a break") {
  using namespace slot_map_test;
  const SlotMapPtr first = slot_map_of(1, members(3), nullptr, nullptr);
  const SlotMapPtr without = slot_map_of(2, members(2), first.get(), first.get());
  const SlotMapPtr again = slot_map_of(3, members(3), without.get(), without.get());
  const auto self = members(3)[2].identity.incarnation;
  auto was = std::make_unique<base::SlotOwnership>();
  auto now = std::make_unique<base::SlotOwnership>();
  std::uint32_t both = 0;
  std::uint32_t wrong = 0;
  for (std::uint16_t shard = 0; shard < 2; ++shard) {
    fill_ownership(*was, *first, self, shard);
    fill_ownership(*now, *again, self, shard);
    for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
      const auto slot = static_cast<base::Slot>(i);
      wrong += was->owns(slot) && i % 2 != shard;
      both += was->owns(slot) && now->owns(slot);
      wrong += now->owns(slot) && now->since[slot] != 3;
    }
  }
  CHECK(both > 1000);
  CHECK(wrong == 0);
  fill_ownership(*now, *without, self, 0);
  CHECK(now->epoch == 2);
  CHECK(std::count(now->since.begin(), now->since.end(), 0u) == base::kSlotCount);
}

TEST_CASE("a map that is taken over keeps only tenures that the map in force does not contradict") {
  using namespace slot_map_test;
  const SlotMapPtr reported = slot_map_of(57, members(3), nullptr, nullptr);
  const SlotMapPtr issued = slot_map_of(1, members(1), nullptr, nullptr);
  const SlotMapPtr merged = slot_map_of(58, members(3), reported.get(), issued.get());
  CHECK(moved_slots(*reported, *merged) == 0);
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    const bool kept = owner_name(*merged, slot) == "s0";
    REQUIRE(merged->since(static_cast<base::Slot>(slot)) == (kept ? 57u : 58u));
  }
}

TEST_CASE("nobody left: slots belong to nobody, and to the next who comes") {
  using namespace slot_map_test;
  const SlotMapPtr one = slot_map_of(1, members(1), nullptr, nullptr);
  const SlotMapPtr none = slot_map_of(2, {}, one.get(), one.get());
  CHECK(none->owner_of(17) == nullptr);
  const SlotMapPtr next = slot_map_of(3, members(2), none.get(), none.get());
  CHECK(imbalance_of(*next).slots < 1);
}

TEST_CASE("the same arguments make the same map, in whatever order members are named") {
  using namespace slot_map_test;
  auto some = members(9);
  const SlotMapPtr before = slot_map_of(1, members(7), nullptr, nullptr);
  const SlotMapPtr a = slot_map_of(2, some, before.get(), before.get());
  std::reverse(some.begin(), some.end());
  const SlotMapPtr b = slot_map_of(2, some, before.get(), before.get());
  CHECK(*a == *b);
}

TEST_CASE("random histories of members: shares hold, and nothing moves without need") {
  using namespace slot_map_test;
  const std::uint64_t seed = seed_of_run();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_cluster -tc='random histories*'");
  std::mt19937_64 random(seed);
  const std::uint64_t runs = simm::test_support::rounds_from("SIMM_ROUNDS", 6);
  for (std::uint64_t run = 0; run < runs; ++run) {
    std::map<std::string, MapMember> present;
    SlotMapPtr map;
    std::uint64_t incarnations = 0;
    for (base::Epoch epoch = 1; epoch <= 40; ++epoch) {
      const std::string name = "m" + std::to_string(random() % 12);
      const std::uint64_t weight =
          random() % 3 == 0 ? random() % kWeightBytesMax + 1 : kGiB << (random() % 6);
      if (random() % 3 == 0) {
        present.erase(name);
      } else {
        present[name] = member(name, ++incarnations, weight);
        present[name].shards = 1;  // several may need a slot or two more: slot_map_shards_test.cpp
      }
      std::vector<MapMember> list;
      for (const auto& [key, value] : present) list.push_back(value);
      const SlotMapPtr next = slot_map_of(epoch, list, map.get(), map.get());
      REQUIRE(imbalance_of(*next).slots < 1);
      if (map != nullptr && !map->members().empty() && !list.empty()) {
        REQUIRE(moved_slots(*map, *next) == least_movement(*map, *next));
      }
      std::uint32_t wrong = 0;
      for (std::uint32_t i = 0; map != nullptr && i < base::kSlotCount; ++i) {
        const auto slot = static_cast<base::Slot>(i);
        const MapMember* was = map->owner_of(slot);
        const MapMember* now = next->owner_of(slot);
        if (now == nullptr) continue;
        const bool same = was != nullptr && was->identity == now->identity;
        wrong += next->since(slot) != (same ? map->since(slot) : epoch);
      }
      REQUIRE(wrong == 0);
      map = next;
    }
  }
}

TEST_CASE("what no map can be made of is an error, and not the end of who tries") {
  using namespace slot_map_test;
  const auto status_of = [](base::Epoch epoch, const std::vector<MapMember>& list) {
    return build_slot_map(epoch, list, nullptr, nullptr).status();
  };
  auto twins = members(3);
  twins[2].identity.incarnation = twins[0].identity.incarnation;
  CHECK(status_of(1, twins) == simm::Status::invalid_argument);
  auto weightless = members(2);
  for (MapMember& member : weightless) member.weight_bytes = 0;
  CHECK(status_of(1, weightless) == simm::Status::invalid_argument);
  auto heaviest = members(kMembersMax, kWeightBytesMax);
  CHECK(status_of(kEpochMax, heaviest) == simm::Status::ok);
  CHECK(status_of(kEpochMax + 1, heaviest) == simm::Status::invalid_argument);
  heaviest[7].weight_bytes = ~std::uint64_t{0};
  CHECK(status_of(1, heaviest) == simm::Status::invalid_argument);
  CHECK(status_of(1, members(kMembersMax + 1)) == simm::Status::invalid_argument);
}

TEST_CASE("a map that no builder makes is refused") {
  using namespace slot_map_test;
  const SlotMapPtr good = slot_map_of(5, members(2), nullptr, nullptr);
  const auto refused = [&](auto change) {
    base::Epoch epoch = good->epoch();
    auto list = good->members();
    auto owners = good->owners();
    change(epoch, list, owners);
    return SlotMap::make(epoch, list, owners).status() == simm::Status::invalid_argument;
  };
  using List = std::vector<MapMember>;
  using Owners = std::vector<SlotOwner>;
  CHECK_FALSE(refused([](base::Epoch&, List&, Owners&) {}));
  CHECK(refused([](base::Epoch& epoch, List&, Owners&) { epoch = 0; }));
  CHECK_FALSE(refused([](base::Epoch& epoch, List&, Owners&) { epoch = kEpochMax; }));
  CHECK(refused([](base::Epoch& epoch, List&, Owners&) { epoch = kEpochMax + 1; }));
  CHECK(refused([](base::Epoch& epoch, List&, Owners&) { epoch = ~base::Epoch{0}; }));
  for (unsigned byte = 0; byte < 0x100; ++byte) {
    const bool is_fine = byte >= 0x20 && byte < 0x7f;
    CHECK(refused([byte](base::Epoch&, List& list, Owners&) {
            list[1].address = std::string("host") + static_cast<char>(byte);
          }) != is_fine);
  }
  CHECK(refused([](base::Epoch&, List&, Owners& owners) { owners.pop_back(); }));
  CHECK(refused([](base::Epoch&, List&, Owners& owners) { owners[3].member = 2; }));
  CHECK(refused([](base::Epoch&, List&, Owners& owners) { owners[3] = {}; }));
  CHECK(refused([](base::Epoch&, List&, Owners& owners) { owners[3].since = 6; }));
  CHECK(refused([](base::Epoch&, List&, Owners& owners) { owners[3].since = 0; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].identity.name = "s0"; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].identity.name = "a b"; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].identity.incarnation = {}; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) {
    list[1].identity.incarnation = list[0].identity.incarnation;
  }));
  CHECK(refused(
      [](base::Epoch&, List& list, Owners&) { list[1].identity.role = ClusterRole::manager; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].address = "a\nb"; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].address.clear(); }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].port = 0; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].shards = 0; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].shards = 65; }));
  CHECK(refused([](base::Epoch&, List& list, Owners&) { list[1].weight_bytes = 0; }));
  CHECK(refused(
      [](base::Epoch&, List& list, Owners&) { list[1].weight_bytes = kWeightBytesMax + 1; }));
  CHECK(refused([](base::Epoch&, List& list, Owners& owners) {
    list.clear();
    owners[0].member = kNoMember;
  }));
}
