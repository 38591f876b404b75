#include "daemon/cluster/map_placement.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/unit/daemon/cluster/cluster_samples.h"

TEST_CASE("a placement routes every slot to its owner's peer and shard") {
  using namespace cluster_samples;
  auto some = members(3);
  some[2].shards = 5;
  const SlotMapPtr map = slot_map_of(4, some, nullptr, nullptr);
  PeerTable peers(some[1].identity.incarnation);
  const PeerTable::Change change = peers.use(*map);
  CHECK(change.added.size() == 2);
  CHECK(change.removed.empty());
  const MapPlacement placement(*map, peers);
  CHECK(placement.epoch() == 4);
  std::set<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const simm::transport::Route route = placement.route(slot);
    const MapMember& owner = *map->owner_of(slot);
    seen.insert(route.peer.value);
    REQUIRE(route.shard == i % owner.shards);
    if (route.peer == base::kSelf) {
      REQUIRE(owner.identity == some[1].identity);
    } else {
      REQUIRE(peers.who(route.peer)->identity == owner.identity);
    }
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("without a map, and without owners, every route leads to nobody") {
  using namespace cluster_samples;
  const MapPlacement none;
  CHECK(none.epoch() == 0);
  CHECK(none.route(77).peer == kNoPeer);
  PeerTable peers(incarnation(1));
  const SlotMapPtr empty = slot_map_of(3, {}, nullptr, nullptr);
  peers.use(*empty);
  const MapPlacement placement(*empty, peers);
  CHECK(placement.epoch() == 3);
  CHECK(placement.route(77).peer == kNoPeer);
}

TEST_CASE("a restarted peer is another peer; its number is free only when it is released") {
  using namespace cluster_samples;
  auto some = members(2);
  PeerTable peers(incarnation(50));
  peers.use(*slot_map_of(1, some, nullptr, nullptr));
  const base::PeerId old = peers.find(some[1].identity.incarnation);
  some[1].identity.incarnation = incarnation(60);
  const PeerTable::Change change = peers.use(*slot_map_of(2, some, nullptr, nullptr));
  CHECK(change.removed == std::vector<base::PeerId>{old});
  REQUIRE(change.added.size() == 1);
  CHECK(change.added[0] != old);
  CHECK(peers.who(old) == nullptr);
  CHECK(peers.find(incarnation(2)) == kNoPeer);
  CHECK(peers.who(base::kSelf) == nullptr);
  peers.release(old);
  some.push_back(member("s2", 70));
  peers.use(*slot_map_of(3, some, nullptr, nullptr));
  CHECK(peers.find(incarnation(70)) == old);
  CHECK(peers.size() == 3);
  // One that came back at another address is to be dialled there, and its old links are dropped.
  const base::PeerId before = peers.find(incarnation(1));
  some[0].port = 4711;
  const PeerTable::Change moved = peers.use(*slot_map_of(4, some, nullptr, nullptr));
  CHECK(moved.removed == std::vector<base::PeerId>{before});
  REQUIRE(moved.added.size() == 1);
  CHECK(peers.find(incarnation(1)) == moved.added[0]);
  CHECK(peers.who(moved.added[0])->port == 4711);
  CHECK(peers.who(before) == nullptr);
  CHECK(peers.size() == 3);
}
