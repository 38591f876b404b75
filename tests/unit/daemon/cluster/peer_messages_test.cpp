// Whatever a peer that knows the secret says: a manager and a member go on, and what they tell of
// it can be read. Every field at its limits and beyond.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/cluster/cluster_codec.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace peer_messages_test {

using namespace manager_rig;

constexpr base::Epoch kSomeEpoch = 0x1122334455667788;  // found again in a packet
static_assert(kSomeEpoch <= kEpochMax / 2);

// Two honest daemons, and peers that say what they like.
struct Scene {
  Scene() {
    rig.add("a", 1);
    rig.add("b", 2);
    rig.run(3 * kNsPerSecond);
    REQUIRE(rig.everybody_has_the_map());
  }
  // On a connection of its own, which ends then.
  void say(const DaemonIdentity& who, const std::vector<Bytes>& messages) {
    const ConnectionId id = next_connection++;
    rig.manager->on_connected(id, who, kHelloVersionMax);
    for (const Bytes& message : messages) {
      rig.manager->on_message(id, message);
      turn();
    }
    rig.manager->on_closed(id);
    turn();
  }
  // Long enough for a map, and everything is told.
  void turn() {
    rig.run(30 * kNsPerMs);
    for (const Topic topic : {Topic::nodes, Topic::slots, Topic::stats}) {
      CHECK_FALSE(nlohmann::json::parse(rig.manager->report(topic), nullptr, false).is_discarded());
    }
  }
  // Everybody honest has a place in the newest map, and the manager makes maps.
  void check_well() {
    rig.run(60 * kNsPerSecond);
    CHECK(rig.manager->store_error().empty());
    CHECK(rig.everybody_has_the_map());
    const base::Epoch before = rig.epoch();
    rig.add("late", 900);
    rig.run(3 * kNsPerSecond);
    CHECK(rig.epoch() > before);
    CHECK(rig.everybody_has_the_map());
    for (const auto& daemon : rig.daemons) CHECK(rig.slots_of(*daemon) > 0);
  }

  Rig rig;
  ConnectionId next_connection = 1'000'000;
};

DaemonIdentity peer(std::uint64_t number, const std::string& name = "peer") {
  return {incarnation(number), ClusterRole::storage, name};
}
Join some_join() {
  return Join{"10.0.0.9", 30002, 2, kGiB, 0, false};
}
Bytes packet(const MemberMessage& message) {
  return encode(message).value();
}

}  // namespace peer_messages_test

TEST_CASE("peer: any bytes in an address") {
  using namespace peer_messages_test;
  Scene scene;
  for (unsigned byte = 0x20; byte < 0x100; ++byte) {
    const std::string said = std::string("10.0.0.") + static_cast<char>(byte);
    scene.say(peer(1000 + byte), {patched(packet(some_join()), "10.0.0.9", said)});
    // Of one that owns no slots, too.
    Join subscriber = some_join();
    subscriber.weight_bytes = 0;
    scene.say(peer(2000 + byte), {patched(packet(subscriber), "10.0.0.9", said)});
    const Bytes report =
        packet(MapReport{slot_map_of(scene.rig.epoch() + 1, members(1), nullptr, nullptr)});
    scene.say(peer(3000 + byte), {packet(some_join()), patched(report, "10.0.0.7", said)});
  }
  scene.check_well();
}

TEST_CASE("peer: every number of a Join and a Heartbeat at its limits") {
  using namespace peer_messages_test;
  Scene scene;
  const auto numbers = {std::uint64_t{0},      std::uint64_t{1}, kWeightBytesMax,
                        kWeightBytesMax + 1,   kEpochMax,        kEpochMax + 1,
                        ~std::uint64_t{0} - 1, ~std::uint64_t{0}};
  std::uint64_t number = 1000;
  for (const std::uint64_t value : numbers) {
    const auto small = static_cast<std::uint16_t>(value);
    std::vector<Join> joins(6, some_join());
    joins[0].weight_bytes = value;
    joins[1].map_epoch = value;
    joins[2].port = small;
    joins[3].shards = small;
    joins[4] = Join{"", small, small, 0, value, true};
    joins[5].draining = true;
    const Heartbeat heartbeat{value, value, value, value};
    for (const Join& join : joins) {
      scene.say(peer(number++),
                {packet(join), packet(heartbeat), packet(join), packet(Leave{}), packet(join)});
    }
  }
  scene.check_well();
}

TEST_CASE("peer: the incarnation of another daemon, under another name") {
  using namespace peer_messages_test;
  Scene scene;
  scene.say(peer(1), {packet(some_join())});
  scene.say(peer(2), {packet(some_join()), packet(Heartbeat{1, 9, 9, 9})});
  CHECK(scene.rig.manager->map()->members().size() == 2);
  scene.check_well();
}

TEST_CASE("peer: a map of as many members as there may be, beside those that there are") {
  using namespace peer_messages_test;
  Scene scene;
  std::vector<MapMember> list = members(kMembersMax);
  for (MapMember& one : list)
    one.identity.incarnation = incarnation(one.identity.incarnation.high + 5000);
  const base::Epoch epoch = scene.rig.epoch() + 100;
  const SlotMapPtr map = slot_map_of(epoch, list, nullptr, nullptr);
  scene.say(peer(3000, list[7].identity.name), {packet(some_join()), packet(MapReport{map})});
  CHECK(scene.rig.manager->map()->members().size() == kMembersMax);
  CHECK(scene.rig.epoch() > epoch);
  scene.check_well();
}

TEST_CASE("peer: a map of an epoch that no cluster reaches") {
  using namespace peer_messages_test;
  Scene scene;
  const SlotMapPtr map = slot_map_of(kSomeEpoch, {}, nullptr, nullptr);
  std::uint64_t number = 1000;
  const base::Epoch before = scene.rig.epoch();
  for (const base::Epoch epoch : {base::Epoch{0}, kEpochMax / 2 + 1, kEpochMax - 1, kEpochMax,
                                  kEpochMax + 1, ~base::Epoch{0} - 1, ~base::Epoch{0}}) {
    Join join = some_join();
    join.weight_bytes = 0;
    join.map_epoch = epoch;
    scene.say(peer(number++), {packet(join), patched(packet(MapReport{map}), kSomeEpoch, epoch)});
    CHECK(scene.rig.epoch() == before);
  }
  Join join = some_join();
  join.weight_bytes = 0;
  scene.say(peer(number++),
            {packet(join), patched(packet(MapReport{map}), kSomeEpoch, kEpochMax / 2)});
  CHECK(scene.rig.epoch() == kEpochMax / 2 + 1);
  scene.check_well();
}

TEST_CASE("peer: a stored state of an impossible epoch does not start, the last epoch is no end") {
  using namespace peer_messages_test;
  const Bytes state =
      encode(ManagerState{slot_map_of(kSomeEpoch, members(1), nullptr, nullptr), {}}).value();
  CHECK_FALSE(decode_manager_state(patched(state, kSomeEpoch, kEpochMax + 1)).has_value());
  Rig rig;
  rig.kill_manager();
  const SlotMapPtr last = slot_map_of(kEpochMax, members(1), nullptr, nullptr);
  REQUIRE(rig.coordinator->store(0, {kEpochMax, encode(ManagerState{last, {}}).value()}));
  rig.start_manager();
  Daemon& a = rig.add("s0", 1);
  rig.add("s1", 2);
  rig.run(5 * kNsPerSecond);
  CHECK(rig.epoch() == kEpochMax);
  CHECK(rig.slots_of(a) == base::kSlotCount);
  CHECK(rig.manager->store_error().find("epoch") != std::string::npos);
}

TEST_CASE("peer: a manager that says anything does not end a member") {
  using namespace peer_messages_test;
  const Bytes map =
      encode(ManagerMessage(MapPush{slot_map_of(kSomeEpoch, members(1), nullptr, nullptr)}))
          .value();
  std::vector<Bytes> pushes;
  for (unsigned byte = 0x20; byte < 0x100; ++byte) {
    pushes.push_back(patched(map, "10.0.0.7", std::string("10.0.0.") + static_cast<char>(byte)));
    pushes.push_back(patched(encode(ManagerMessage(Refused{false, "a reason"})).value(), "a reason",
                             std::string("a reaso") + static_cast<char>(byte)));
    pushes.push_back(patched(encode(ManagerMessage(Answer{1, simm::Status::ok, "a text"})).value(),
                             "a text", std::string("a tex") + static_cast<char>(byte)));
  }
  for (const Bytes& push : pushes) {
    Rig rig;
    Daemon& a = rig.add("s0", 1);
    a.connection = 900;
    a.member.on_connected();
    a.member.on_message(push);
    if (a.member.map() != nullptr) CHECK(is_printable(a.member.map()->members()[0].address));
    CHECK(is_printable(a.member.reason()));
  }
}
