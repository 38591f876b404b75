// Lives of a cluster: what becomes of daemons and maps when there are two managers, when a
// manager's state is lost, or when two maps have one epoch.
#include "daemon/cluster/lineage.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/base/hash.h"
#include "daemon/cluster/cluster_codec.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace lineage_test {

using namespace manager_rig;

const Lineage& lineage_of(const Rig& rig) {
  return rig.manager->map()->life().lineage;
}

// Another member joins, and one more.
void make_maps(Rig& rig, std::uint64_t first_number, int count) {
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = first_number + static_cast<std::uint64_t>(i);
    rig.add("m" + std::to_string(number), number);
    rig.run(1 * kNsPerSecond);
  }
}

// Slots whose tenure began before the newest map of `now`, though another owner had them in
// `other`.
std::uint32_t doubtful_slots(const SlotMap& now, const SlotMap& other) {
  std::uint32_t doubtful = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const bool same = now.owner_of(slot)->identity == other.owner_of(slot)->identity;
    doubtful += !same && now.since(slot) < now.epoch() ? 1U : 0U;
  }
  return doubtful;
}

// The bytes that a map's digest is of, little-endian: no release may change them.
void add_word(std::string& bytes, std::uint64_t word) {
  for (unsigned shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(word >> shift);
}
void add_text(std::string& bytes, const std::string& text) {
  add_word(bytes, text.size());
  bytes += text;
}
std::string digested(const SlotMap& map) {
  std::string bytes;
  add_word(bytes, map.epoch());
  add_word(bytes, map.members().size());
  for (const MapMember& member : map.members()) {
    add_text(bytes, full_name(member.identity));
    add_word(bytes, member.identity.incarnation.high);
    add_word(bytes, member.identity.incarnation.low);
    add_text(bytes, member.address);
    add_word(bytes, member.port);
    add_word(bytes, member.shards);
    add_word(bytes, member.weight_bytes);
  }
  for (const SlotOwner& owner : map.owners()) {
    add_word(bytes, owner.member);
    add_word(bytes, owner.since);
  }
  return bytes;
}

std::uint32_t kept_slots(const SlotMap& now) {
  std::uint32_t kept = 0;
  for (const SlotOwner& owner : now.owners()) kept += owner.since < now.epoch() ? 1U : 0U;
  return kept;
}

}  // namespace lineage_test

TEST_CASE("all maps of a cluster's life are of one lineage, whatever manager makes them") {
  using namespace lineage_test;
  Rig rig;
  rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  const Lineage lineage = lineage_of(rig);
  CHECK(lineage.is_set());
  CHECK(rig.manager->map()->life().ancestors.empty());
  rig.kill_manager();
  rig.start_manager();
  make_maps(rig, 10, 2);
  CHECK(rig.epoch() == 3);
  CHECK(lineage_of(rig) == lineage);
  CHECK(rig.daemons[0]->member.map()->life().lineage == lineage);
  const auto nodes = nlohmann::json::parse(rig.manager->report(Topic::nodes));
  CHECK(nodes["lineage"] == lineage.text());
  Rig other;
  other.add("a", 1);
  other.run(3 * kNsPerSecond);
  CHECK(lineage_of(other) != lineage);
}

TEST_CASE("a daemon that reaches the manager of another life is refused, and keeps its map") {
  using namespace lineage_test;
  Rig other;
  other.add("z", 90);
  other.run(3 * kNsPerSecond);
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& node = rig.add("n", 3, 0, ClusterRole::node);
  rig.run(3 * kNsPerSecond);
  SUBCASE("its epoch is older") {
    make_maps(rig, 10, 3);
  }
  SUBCASE("its epoch is the same") {}
  SUBCASE("its epoch is newer") {
    make_maps(other, 91, 3);
  }
  const SlotMapPtr before = a.member.map();
  const auto own_state = rig.disk.state;
  rig.kill_manager();
  rig.disk.state = other.disk.state;
  rig.start_manager();
  rig.run(40 * kNsPerSecond);
  for (const Daemon* daemon : {&a, &node}) {
    CHECK(daemon->member.state() == LinkState::refused);
    CHECK(daemon->member.reason().find(before->life().lineage.text()) != std::string::npos);
    CHECK(daemon->member.reason().find(lineage_of(other).text()) != std::string::npos);
    CHECK(daemon->member.reason().find("restart this daemon") != std::string::npos);
    CHECK(*daemon->member.map() == *before);
    CHECK(daemon->expelled.empty());
  }
  CHECK(rig.epoch() == other.epoch());
  CHECK(lineage_of(rig) == lineage_of(other));
  const auto stats = nlohmann::json::parse(rig.manager->report(Topic::stats));
  CHECK(stats["refused_of_another_lineage"] > 1);
  // Back at its own manager it has lost nothing.
  rig.kill_manager();
  rig.disk.state = own_state;
  rig.start_manager();
  rig.run(1 * kNsPerSecond);
  CHECK(a.member.state() == LinkState::joined);
  CHECK(*a.member.map() == *before);
}

TEST_CASE("a map that is brought by a daemon of another life is not taken over") {
  using namespace lineage_test;
  Rig other;
  other.add("z", 90);
  other.run(3 * kNsPerSecond);
  make_maps(other, 91, 3);
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(60 * kNsPerSecond);
  const SlotMapPtr before = rig.manager->map();
  rig.manager->on_message(a.connection,
                          encode(MemberMessage(MapReport{other.manager->map()})).value());
  REQUIRE(a.closed.size() == 1);
  CHECK(a.closed[0].find("lineage") != std::string::npos);
  rig.run(1 * kNsPerSecond);
  CHECK(rig.manager->map() == before);
}

TEST_CASE("two maps of one epoch do not stand side by side, and no doubtful tenure survives") {
  using namespace lineage_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  const auto backup = rig.disk.state;
  Daemon& b = rig.add("b", 2);
  rig.run(1 * kNsPerSecond);
  const SlotMapPtr real = rig.manager->map();
  REQUIRE(real->epoch() == 2);
  // An old state, and somebody else is there first.
  rig.kill_manager();
  rig.disk.state = backup;
  a.frozen = b.frozen = true;
  rig.add("c", 3);
  rig.start_manager();
  rig.run(1 * kNsPerSecond);
  const SlotMapPtr fork = rig.manager->map();
  REQUIRE(fork->epoch() == 2);
  REQUIRE(fork->life().lineage == real->life().lineage);
  REQUIRE(fork->digest() != real->digest());
  SUBCASE("seen at the join") {
    a.frozen = b.frozen = false;
  }
  SUBCASE("seen by a manager that has the other one from its state") {
    rig.kill_manager();
    rig.start_manager();
    a.frozen = b.frozen = false;
  }
  SUBCASE("seen by a heartbeat, of a node that lags behind") {
    // It has joined already, without a map.
    Daemon& node = rig.add("n", 4, 0, ClusterRole::node);
    rig.run(100 * kNsPerMs);
    node.member.on_message(encode(ManagerMessage(MapPush{real})).value());
    REQUIRE(*node.member.map() == *fork);  // an epoch names one map for a member
    Heartbeat heartbeat;
    heartbeat.map_epoch = 2;
    heartbeat.map_digest = real->digest();
    rig.manager->on_message(node.connection, encode(MemberMessage(heartbeat)).value());
    CHECK(decode_manager_message(node.to_member.back()).value() == ManagerMessage(MapWanted{}));
    a.frozen = b.frozen = false;
  }
  rig.run(2 * kNsPerSecond);
  CHECK(rig.epoch() >= 3);
  CHECK(rig.everybody_has_the_map());
  CHECK(doubtful_slots(*rig.manager->map(), *real) == 0);
  CHECK(doubtful_slots(*rig.manager->map(), *fork) == 0);
  CHECK(kept_slots(*rig.manager->map()) > 0);  // of a, in both
}

TEST_CASE("a lost state: the new life goes on from the map that a daemon brings in time") {
  using namespace lineage_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& late = rig.add("late", 2, 0, ClusterRole::node);
  rig.run(3 * kNsPerSecond);
  late.frozen = true;
  rig.hang_up(late);
  make_maps(rig, 10, 3);
  const SlotMapPtr before = rig.manager->map();
  const Lineage former = before->life().lineage;
  rig.kill_manager();
  rig.disk.state.reset();
  rig.start_manager();
  rig.run(3 * kNsPerSecond);
  const SlotMapPtr now = rig.manager->map();
  CHECK(now->epoch() == before->epoch() + 1);
  CHECK(now->life().lineage != former);
  CHECK(now->life().ancestors == std::vector<Ancestor>{{former, before->epoch()}});
  CHECK(kept_slots(*now) == base::kSlotCount);
  CHECK(a.member.map()->routes_as(*now));
  // What a pool may be used for: what this manager has known.
  CHECK_FALSE(now->is_of_another_life(former, before->epoch()));
  CHECK_FALSE(now->is_of_another_life(former, 1));
  CHECK_FALSE(now->is_of_another_life({}, kEpochMax));
  CHECK(now->is_of_another_life(former, before->epoch() + 1));
  CHECK(now->is_of_another_life({1, 2}, 1));
  // Whoever has an older map of the former life is one of them, however late.
  rig.run(60 * kNsPerSecond);
  rig.kill_manager();
  rig.start_manager();
  late.frozen = false;
  rig.run(1 * kNsPerSecond);
  CHECK(late.member.state() == LinkState::joined);
  CHECK(late.member.map()->routes_as(*now));
}

TEST_CASE("a lost state: maps of the former life that come late are taken over within the grace") {
  using namespace lineage_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  const SlotMapPtr before = rig.manager->map();
  rig.kill_manager();
  rig.disk.state.reset();
  a.frozen = b.frozen = true;
  rig.start_manager();
  make_maps(rig, 10, 3);
  rig.run(2 * kNsPerSecond);
  const SlotMapPtr fresh = rig.manager->map();
  REQUIRE(fresh->epoch() > before->epoch());
  bool in_time = true;
  SUBCASE("in time") {}
  SUBCASE("too late") {
    in_time = false;
    rig.run(31 * kNsPerSecond);
  }
  a.frozen = b.frozen = false;
  rig.run(2 * kNsPerSecond);
  CHECK(a.member.state() == (in_time ? LinkState::joined : LinkState::refused));
  if (!in_time) {
    CHECK(*a.member.map() == *before);
    CHECK(rig.manager->map() == fresh);
    return;
  }
  const SlotMapPtr now = rig.manager->map();
  CHECK(now->epoch() > fresh->epoch());
  CHECK(rig.everybody_has_the_map());
  CHECK(now->life().lineage == fresh->life().lineage);
  CHECK(now->life().ancestors == std::vector<Ancestor>{{before->life().lineage, before->epoch()}});
  CHECK(doubtful_slots(*now, *before) == 0);
  CHECK(doubtful_slots(*now, *fresh) == 0);
}

TEST_CASE("a manager without a state is brought maps of two lives: no tenure of either survives") {
  using namespace lineage_test;
  Rig other;
  Daemon& z = other.add("z", 90);
  other.run(3 * kNsPerSecond);
  make_maps(other, 91, 3);
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  const Lineage first = lineage_of(rig);
  rig.kill_manager();
  rig.disk.state.reset();
  a.frozen = true;
  rig.start_manager();
  // Both say what they know, in either order.
  rig.manager->on_connected(1000, z.member.config().identity, kHelloVersionMax);
  rig.manager->on_connected(1001, a.member.config().identity, kHelloVersionMax);
  Join join{"10.0.0.7", 30002, 2, kGiB, other.epoch(), false, false, 0, lineage_of(other), 5};
  rig.manager->on_message(1000, encode(MemberMessage(join)).value());
  join.map_epoch = 1;
  join.lineage = first;
  rig.manager->on_message(1001, encode(MemberMessage(join)).value());
  std::vector<SlotMapPtr> reports{other.manager->map(), a.member.map()};
  SUBCASE("the newer one first") {}
  SUBCASE("the older one first") {
    std::swap(reports[0], reports[1]);
  }
  for (const SlotMapPtr& map : reports) {
    rig.manager->on_message(1000, encode(MemberMessage(MapReport{map})).value());
  }
  rig.run(3 * kNsPerSecond);
  REQUIRE(rig.manager->map() != nullptr);
  const SlotMap& now = *rig.manager->map();
  CHECK(now.epoch() > other.epoch());
  CHECK(kept_slots(now) == 0);
  CHECK_FALSE(now.is_of_another_life(first, 1));
  CHECK_FALSE(now.is_of_another_life(lineage_of(other), other.epoch()));
}

TEST_CASE("daemons of the previous release know no lineage, and lose nothing by it") {
  using namespace lineage_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& old = rig.add("old", 2);
  old.version = kHelloVersionMin;
  rig.run(3 * kNsPerSecond);
  CHECK_FALSE(old.member.map()->life().lineage.is_set());
  const Lineage lineage = lineage_of(rig);
  // It brings the map to a manager that has lost its state.
  a.frozen = true;
  rig.kill_manager();
  rig.disk.state.reset();
  rig.start_manager();
  rig.run(3 * kNsPerSecond);
  CHECK(rig.epoch() == 2);
  CHECK(kept_slots(*rig.manager->map()) == base::kSlotCount);
  CHECK(rig.manager->map()->life().ancestors.empty());
  CHECK(lineage_of(rig) != lineage);

  // A manager of the previous release leaves a state without a lineage, and its maps have none.
  ManagerState state = decode_manager_state(rig.disk.state->bytes).value();
  state.map = simm::sim::without_life(*state.map);
  rig.kill_manager();
  rig.disk.state->bytes = encode(state).value();
  a.frozen = false;
  a.version = old.version;
  rig.remove(a);
  Daemon& upgraded = rig.add("a", 1);
  rig.start_manager();
  rig.run(3 * kNsPerSecond);
  // Its successor makes no map for that.
  CHECK(rig.epoch() == 2);
  CHECK(upgraded.member.state() == LinkState::joined);
  CHECK_FALSE(upgraded.member.map()->life().lineage.is_set());
  make_maps(rig, 10, 1);
  CHECK(rig.epoch() == 3);
  CHECK(lineage_of(rig).is_set());
  CHECK(rig.everybody_has_the_map());
  CHECK(kept_slots(*rig.manager->map()) > 10'000);
}

TEST_CASE("a map's digest is the same in every release, and tells owners and tenures apart") {
  using namespace lineage_test;
  const SlotMapPtr map = slot_map_of(7, members(3), nullptr, nullptr);
  const std::string bytes = digested(*map);
  CHECK(map->digest() == base::payload_digest(bytes.data(), bytes.size()));
  CHECK(map->digest() == simm::sim::without_life(*map)->digest());
  auto owners = map->owners();
  owners[5].since = 6;
  CHECK(SlotMap::make(7, map->members(), owners).value()->digest() != map->digest());
  owners[5].since = 7;
  owners[5].member = static_cast<MemberIndex>((owners[5].member + 1) % 3);
  CHECK(SlotMap::make(7, map->members(), owners).value()->digest() != map->digest());
  CHECK(SlotMap::make(8, map->members(), map->owners()).value()->digest() != map->digest());
  auto moved = map->members();
  moved[1].port += 1;
  CHECK(SlotMap::make(7, moved, map->owners()).value()->digest() != map->digest());
}
