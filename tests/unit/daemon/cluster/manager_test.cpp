#include "daemon/cluster/manager.h"

#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "daemon/cluster/cluster_codec.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace manager_test {

using namespace manager_rig;
using simm::Status;

// Slots that `number` owns in `b` without a break since `a`.
std::uint32_t kept_slots(const SlotMap& a, const SlotMap& b, std::uint64_t number) {
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const MapMember* was = a.owner_of(slot);
    const MapMember* now = b.owner_of(slot);
    kept += was != nullptr && now != nullptr && was->identity == now->identity &&
            now->identity.incarnation == incarnation(number) && b.since(slot) <= a.epoch();
  }
  return kept;
}

}  // namespace manager_test

TEST_CASE("daemons that start together share one map, and everybody has it") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2, 3 * kGiB);
  Daemon& node = rig.add("n", 3, 0, ClusterRole::node);
  rig.run(3 * kNsPerSecond);
  CHECK(rig.epoch() == 1);
  CHECK(rig.everybody_has_the_map());
  CHECK(rig.slots_of(a) == 4096);
  CHECK(rig.slots_of(b) == 12288);
  CHECK(rig.slots_of(node) == 0);
  CHECK(node.member.state() == LinkState::joined);
  CHECK(node.member.owns_nothing());
  CHECK(rig.disk.writes == 1);
  // Quiet afterwards: no map without a reason.
  rig.run(60 * kNsPerSecond);
  CHECK(rig.epoch() == 1);
  CHECK(a.maps.size() == 1);
}

TEST_CASE("a node with a pool owns slots like a storage daemon") {
  using namespace manager_test;
  Rig rig;
  Daemon& node = rig.add("n", 3, kGiB, ClusterRole::node);
  rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  CHECK(rig.slots_of(node) == 8192);
}

TEST_CASE("a manager's restart changes no map and no tenure, however long it takes") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  const SlotMapPtr before = rig.manager->map();
  rig.kill_manager();
  rig.run(120 * kNsPerSecond);
  CHECK(a.member.state() == LinkState::alone);
  CHECK(a.epoch() == 1);
  rig.start_manager();
  CHECK(*rig.manager->map() == *before);
  rig.run(60 * kNsPerSecond);
  CHECK(*rig.manager->map() == *before);
  CHECK(a.member.state() == LinkState::joined);
  CHECK(b.maps.size() == 1);
}

TEST_CASE("a dead member keeps its slots for the grace, then they move") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  const SlotMapPtr before = rig.manager->map();
  b.reachable = false;
  rig.run(30 * kNsPerSecond);
  CHECK(rig.epoch() == 1);
  SUBCASE("back in time, nothing has happened") {
    b.reachable = true;
    rig.run(10 * kNsPerSecond);
    CHECK(rig.epoch() == 1);
    CHECK(kept_slots(*before, *rig.manager->map(), 2) == 8192);
  }
  SUBCASE("back too late, it owns slots again but has kept none") {
    rig.run(3 * kNsPerSecond);
    CHECK(rig.epoch() == 2);
    CHECK(rig.slots_of(a) == base::kSlotCount);
    CHECK(kept_slots(*before, *rig.manager->map(), 1) == 8192);
    CHECK(b.epoch() == 1);
    b.reachable = true;
    rig.run(5 * kNsPerSecond);
    CHECK(rig.epoch() == 3);
    CHECK(rig.slots_of(b) == 8192);
    CHECK(kept_slots(*before, *rig.manager->map(), 2) == 0);
    CHECK(kept_slots(*before, *rig.manager->map(), 1) >= 8192 - 4096);
    CHECK(rig.everybody_has_the_map());
  }
}

TEST_CASE("a manager that is cut off with one storage daemon moves nothing") {
  using namespace manager_test;
  Rig rig;
  for (std::uint64_t i = 1; i <= 4; ++i) rig.add("s" + std::to_string(i), i);
  rig.add("n", 9, 0, ClusterRole::node);
  rig.run(3 * kNsPerSecond);
  const SlotMapPtr before = rig.manager->map();
  for (std::size_t i = 1; i < rig.daemons.size(); ++i) rig.daemons[i]->reachable = false;
  rig.run(300 * kNsPerSecond);
  for (const auto& daemon : rig.daemons) daemon->reachable = true;
  rig.run(60 * kNsPerSecond);
  CHECK(*rig.manager->map() == *before);
}

TEST_CASE("a member that the manager does not hear and the nodes reach keeps its slots") {
  using namespace manager_test;
  Rig rig;
  for (std::uint64_t i = 1; i <= 3; ++i) rig.add("s" + std::to_string(i), i);
  Daemon& node = rig.add("n", 9, 0, ClusterRole::node);
  rig.run(3 * kNsPerSecond);
  node.reached = MemberSet{}.set();
  rig.daemons[2]->reachable = false;
  rig.run(300 * kNsPerSecond);
  CHECK(rig.epoch() == 1);
  node.reached->reset();
  rig.run(35 * kNsPerSecond);
  CHECK(rig.epoch() == 2);
}

TEST_CASE("a restarted daemon takes its old slots under a new epoch, and they are empty") {
  using namespace manager_test;
  Rig rig;
  rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  const SlotMapPtr before = rig.manager->map();
  rig.remove(b);
  Daemon& again = rig.add("b", 22);
  rig.run(500 * kNsPerMs);
  CHECK(rig.epoch() == 1);  // its name is kept for a moment
  rig.run(1 * kNsPerSecond);
  CHECK(rig.epoch() == 2);
  CHECK(rig.slots_of(again) == 8192);
  for (std::uint32_t i = 0; i < base::kSlotCount; i += 97) {
    const auto slot = static_cast<base::Slot>(i);
    REQUIRE(before->owner_of(slot)->identity.name ==
            rig.manager->map()->owner_of(slot)->identity.name);
  }
  CHECK(kept_slots(*before, *rig.manager->map(), 1) == 8192);
  CHECK(kept_slots(*before, *rig.manager->map(), 22) == 0);
}

TEST_CASE("a daemon that drains loses its slots at once, and knows when it has") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  b.member.drain();
  rig.run(30 * kNsPerMs);
  CHECK(rig.epoch() == 2);
  CHECK(rig.slots_of(a) == base::kSlotCount);
  CHECK(b.member.owns_nothing());
  // The manager dies: it does not get them back by joining again.
  rig.kill_manager();
  rig.start_manager();
  rig.run(3 * kNsPerSecond);
  CHECK(b.member.state() == LinkState::joined);
  CHECK(rig.slots_of(a) == base::kSlotCount);
  rig.remove(b);
  rig.run(60 * kNsPerSecond);
  CHECK(rig.epoch() == 2);
}

TEST_CASE("drain() while the Join is still under way is not forgotten") {
  using namespace manager_test;
  Rig rig;
  rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  Daemon& b = rig.add("b", 2);
  // It has dialled and sent its Join, and has no answer yet.
  b.connection = 1000;
  rig.manager->on_connected(1000, b.member.config().identity, b.version);
  b.member.on_connected();
  b.member.drain();
  rig.run(1 * kNsPerSecond);
  CHECK(rig.slots_of(b) == 0);
}

TEST_CASE("the last daemon may drain too: slots are nobody's until the next one comes") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  a.member.drain();
  rig.run(100 * kNsPerMs);
  CHECK(a.member.owns_nothing());
  CHECK(rig.manager->map()->members().empty());
  rig.remove(a);
  Daemon& b = rig.add("b", 2);
  rig.run(1 * kNsPerSecond);
  CHECK(rig.slots_of(b) == base::kSlotCount);
}

TEST_CASE("a manager whose state is lost takes the newest map that a daemon brings") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.add("b", 2);
  Daemon& node = rig.add("n", 3, 0, ClusterRole::node);
  rig.run(3 * kNsPerSecond);
  for (std::uint64_t number = 22; number < 30; ++number) {  // some history
    rig.remove(*rig.daemons[1]);
    std::swap(rig.daemons[1], rig.daemons.back());
    rig.add("b", number);
    std::swap(rig.daemons[1], rig.daemons.back());
    rig.run(2 * kNsPerSecond);
  }
  const SlotMapPtr before = rig.manager->map();
  REQUIRE(before->epoch() == 9);
  rig.kill_manager();
  rig.disk.state.reset();
  SUBCASE("somebody new is there first") {
    Daemon& fresh = rig.add("new", 100);
    a.reachable = rig.daemons[1]->reachable = node.reachable = false;
    rig.start_manager();
    rig.run(500 * kNsPerMs);
    a.reachable = rig.daemons[1]->reachable = node.reachable = true;
    rig.run(3 * kNsPerSecond);
    CHECK(rig.epoch() == 10);
    CHECK(rig.slots_of(fresh) > 5000);
    CHECK(kept_slots(*before, *rig.manager->map(), 1) > 5000);
  }
  SUBCASE("a daemon brings it") {
    rig.start_manager();
  }
  SUBCASE("only a node knows it; the others come later") {
    a.reachable = rig.daemons[1]->reachable = false;
    rig.start_manager();
    rig.run(3 * kNsPerSecond);
    CHECK(rig.epoch() == 10);
    a.reachable = rig.daemons[1]->reachable = true;
  }
  rig.run(3 * kNsPerSecond);
  CHECK(rig.epoch() >= 10);
  CHECK(rig.epoch() <= 11);
  CHECK(rig.everybody_has_the_map());
  if (rig.daemons.size() == 3) CHECK(kept_slots(*before, *rig.manager->map(), 1) == 8192);
}

TEST_CASE("the newest map is asked for as soon as somebody joins with it") {
  using namespace manager_test;
  Rig rig;
  rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  rig.kill_manager();
  rig.disk.state.reset();
  rig.config.heartbeat_ns = 30 * kNsPerSecond;
  rig.start_manager();
  rig.run(1'500 * kNsPerMs);
  CHECK(rig.epoch() == 2);
}

TEST_CASE("a manager with an old state never goes back behind what its members know") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  const auto old_state = rig.disk.state;
  rig.add("b", 2);
  rig.run(1 * kNsPerSecond);
  rig.add("c", 3);
  rig.run(1 * kNsPerSecond);
  const SlotMapPtr before = rig.manager->map();
  REQUIRE(before->epoch() == 3);
  rig.kill_manager();
  rig.disk.state = old_state;
  rig.start_manager();
  CHECK(rig.epoch() == 1);
  rig.run(3 * kNsPerSecond);
  CHECK(rig.epoch() >= 4);
  CHECK(rig.everybody_has_the_map());
  for (std::uint64_t number = 1; number <= 3; ++number) {
    CHECK(kept_slots(*before, *rig.manager->map(), number) > 5000);
  }
  CHECK(std::is_sorted(a.maps.begin(), a.maps.end(),
                       [](const auto& x, const auto& y) { return x->epoch() < y->epoch(); }));
}

TEST_CASE("a state that can not be read stops the manager") {
  using namespace manager_test;
  Rig rig;
  rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  simm::sim::SimCoordinator coordinator(rig.disk);
  rig.disk.state->epoch = 7;
  Manager second(rig.config, rig.clock, rig.random, coordinator, rig);
  CHECK(second.start().status() == Status::corrupt);
  rig.disk.state->bytes.resize(16);
  Manager third(rig.config, rig.clock, rig.random, coordinator, rig);
  CHECK(third.start().status() == Status::invalid_argument);
}

TEST_CASE("garbage, silence before the Join, and other kinds of messages close a connection") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  rig.manager->on_message(a.connection, Bytes(24, std::byte{0x5a}));
  CHECK(a.closed.size() == 1);
  rig.run(1 * kNsPerSecond);
  CHECK(a.member.state() == LinkState::joined);

  Daemon& b = rig.add("b", 2);
  b.frozen = true;
  b.connection = 500;
  rig.manager->on_connected(500, b.member.config().identity, b.version);
  rig.manager->on_message(500, encode(MemberMessage(Heartbeat{})).value());
  CHECK(b.closed == std::vector<std::string>{"it has not joined"});
  b.connection = 501;
  rig.manager->on_connected(501, b.member.config().identity, b.version);
  rig.run(6 * kNsPerSecond);
  CHECK(b.closed.back() == "it has not joined in time");
  // Messages of connections that have gone are nothing.
  rig.manager->on_message(500, encode(MemberMessage(Heartbeat{})).value());
}

TEST_CASE("a map that got lost on its way is sent again") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  rig.add("b", 2);
  // The push to `a` is lost, the connection stays.
  for (int i = 0; i < 10 && rig.epoch() == 1; ++i) {
    a.frozen = true;
    rig.run(10 * kNsPerMs);
  }
  REQUIRE(rig.epoch() == 2);
  a.to_member.clear();
  a.frozen = false;
  rig.run(1 * kNsPerSecond);
  CHECK(a.epoch() == 2);
}

TEST_CASE("questions: the manager answers its own and passes on the others") {
  using namespace manager_test;
  using nlohmann::json;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  Daemon& node = rig.add("b", 3, 0, ClusterRole::node);
  rig.run(3 * kNsPerSecond);
  const auto ask = [&](Topic topic, const std::string& target) {
    a.answers.clear();
    REQUIRE(a.member.ask({77, topic, target}) == Status::ok);
    rig.run(30 * kNsPerMs);
    REQUIRE(a.answers.size() == 1);
    CHECK(a.answers[0].id == 77);
    return a.answers[0];
  };
  const json nodes = json::parse(ask(Topic::nodes, "").text);
  CHECK(nodes["epoch"] == 1);
  REQUIRE(nodes["nodes"].size() == 3);
  CHECK(nodes["nodes"][0]["name"] == "b");
  CHECK(nodes["nodes"][0]["role"] == "node");
  CHECK(nodes["nodes"][1]["state"] == "live");
  CHECK(nodes["nodes"][1]["slots"] == 8192);
  CHECK(nodes["nodes"][1]["objects"] == 12);
  const json slots = json::parse(ask(Topic::slots, "").text);
  CHECK(slots["members"][1]["slots"] == 8192);
  CHECK(slots["members"][1]["unchanged_since_epoch"] == 1);
  CHECK(json::parse(ask(Topic::stats, "").text)["owners"] == 2);

  CHECK(ask(Topic::peers, "storage/b").text == "\"I am b\"");
  CHECK(b.asked.size() == 1);
  CHECK(ask(Topic::stats, "node/b").status == Status::ok);
  CHECK(node.asked.size() == 1);
  CHECK(ask(Topic::peers, "nobody").status == Status::not_found);
  CHECK(a.member.ask({1, Topic::peers, std::string(500, 'x')}) == Status::invalid_argument);

  // One that does not answer, and one that dies while it is asked.
  b.frozen = true;
  a.answers.clear();
  REQUIRE(a.member.ask({78, Topic::peers, "storage/b"}) == Status::ok);
  rig.run(1 * kNsPerSecond);
  CHECK(a.answers.empty());
  rig.run(2 * kNsPerSecond);
  REQUIRE(a.answers.size() == 1);
  CHECK(a.answers[0] == Answer{78, Status::timeout, "that daemon does not answer"});
  REQUIRE(a.member.ask({79, Topic::peers, "storage/b"}) == Status::ok);
  rig.run(30 * kNsPerMs);
  rig.hang_up(b);
  rig.run(30 * kNsPerMs);
  CHECK(a.answers.back() == Answer{79, Status::timeout, "that daemon does not answer"});
  // An answer that nobody asked for.
  rig.manager->on_message(a.connection, encode(MemberMessage(Answer{3, Status::ok, "x"})).value());
  // Too many at once.
  for (std::uint32_t i = 0; i <= rig.config.questions_max; ++i) {
    REQUIRE(a.member.ask({1000 + i, Topic::peers, "node/b"}) == Status::ok);
  }
  node.frozen = true;
  rig.run(20 * kNsPerMs);
  CHECK(a.answers.back().status == Status::out_of_memory);
}

TEST_CASE("the cluster's version is the lowest of its daemons, and everybody is told") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& old = rig.add("old", 2);
  old.version = kHelloVersionMin;
  rig.run(10 * kNsPerSecond);
  CHECK(rig.manager->membership().version() == kHelloVersionMin);
  CHECK(a.member.cluster_version() == kHelloVersionMin);
  auto nodes = nlohmann::json::parse(rig.manager->report(Topic::nodes));
  CHECK(nodes["common_protocol"] == kHelloVersionMin);
  CHECK(nodes["nodes"][0]["protocol"] == kHelloVersionMax);
  CHECK(nodes["nodes"][1]["protocol"] == kHelloVersionMin);

  // Upgraded: the same name comes back, and no map is lost meanwhile.
  old.version = kHelloVersionMax;
  rig.hang_up(old);
  rig.run(2 * kNsPerSecond);
  CHECK(a.member.cluster_version() == kHelloVersionMin);
  rig.run(2 * kNsPerSecond);
  CHECK(a.member.cluster_version() == kHelloVersionMax);
  CHECK(rig.epoch() == 1);
  // Whoever is older and joins later takes it down again, with the next heartbeat.
  rig.add("late", 3, 0, ClusterRole::node).version = kHelloVersionMin;
  rig.run(120 * kNsPerMs);
  CHECK(a.member.cluster_version() == kHelloVersionMin);
}

TEST_CASE("a connection that breaks for a moment does not look like an upgrade") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& old = rig.add("old", 2, 0, ClusterRole::node);
  old.version = kHelloVersionMin;
  rig.run(10 * kNsPerSecond);
  for (int i = 0; i < 5; ++i) {
    rig.hang_up(old);
    old.frozen = true;
    rig.run(2 * kNsPerSecond);
    CHECK(a.member.cluster_version() == kHelloVersionMin);
    old.frozen = false;
    rig.run(2 * kNsPerSecond);
    CHECK(a.member.cluster_version() == kHelloVersionMin);
  }
}

TEST_CASE("an owner that a restarted manager has not heard yet counts as the oldest version") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  rig.run(10 * kNsPerSecond);
  CHECK(a.member.cluster_version() == kHelloVersionMax);
  rig.kill_manager();
  rig.run(1 * kNsPerSecond);
  CHECK(a.member.cluster_version() == kHelloVersionMax);
  b.frozen = true;
  rig.start_manager();
  rig.run(10 * kNsPerSecond);
  CHECK(a.member.cluster_version() == kHelloVersionMin);
  const auto nodes = nlohmann::json::parse(rig.manager->report(Topic::nodes));
  CHECK(nodes["nodes"][0]["protocol"] == kHelloVersionMax);
  CHECK(nodes["nodes"][1]["protocol"].is_null());
  b.frozen = false;
  rig.run(4 * kNsPerSecond);
  CHECK(a.member.cluster_version() == kHelloVersionMax);
}

TEST_CASE("a manager of an older release says no version, and its members take the lowest") {
  using namespace manager_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(10 * kNsPerSecond);
  CHECK(a.member.cluster_version() == kHelloVersionMax);
  rig.send(a.connection, encode(ManagerMessage(HeartbeatAck{7, 1, 0})).value());
  rig.run(10 * kNsPerMs);
  CHECK(a.member.cluster_version() == kHelloVersionMin);
  // And one of a release that is not out yet: more than is known here is not claimed.
  rig.send(a.connection, encode(ManagerMessage(HeartbeatAck{7, 1, 1000})).value());
  rig.run(10 * kNsPerMs);
  CHECK(a.member.cluster_version() == kHelloVersionMax);
}
