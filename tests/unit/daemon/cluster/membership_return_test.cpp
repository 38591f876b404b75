// Which members the next map calls back: what was written while they were away they may lack.
#include <doctest/doctest.h>

#include "tests/unit/daemon/cluster/manager_rig.h"
#include "tests/unit/daemon/cluster/membership_fixture.h"

namespace membership_return_test {

using namespace membership_test;

// Two owners, and a node that says whom it reaches under the map of both.
struct Watched : Fixture {
  Watched() {
    CHECK(join(1, storage("a", 1)) == Kind::accepted);
    CHECK(join(2, storage("b", 2)) == Kind::accepted);
    Join subscriber = join_of(0);
    CHECK(join(3, {incarnation(3), ClusterRole::node, "n"}, subscriber) == Kind::accepted);
    map = build_slot_map(1, membership.owners(), nullptr, nullptr).value();
    membership.note_map(*map);
  }
  void beat(ConnectionId connection, bool reaches_all = true) {
    Heartbeat heartbeat;
    heartbeat.map_epoch = 1;
    if (connection == 3) {
      heartbeat.reached.emplace();
      heartbeat.reached->set(0);
      heartbeat.reached->set(1, reaches_all);
    }
    CHECK(membership.heard(connection, heartbeat));
  }
  // The owner `b` says nothing.
  void pass_without_b(base::TimeNs ns, bool is_reached) {
    for (base::TimeNs passed_ns = 0; passed_ns < ns; passed_ns += 100 * kNsPerMs) {
      clock.advance_ns(100 * kNsPerMs);
      beat(1);
      beat(3, is_reached);
      membership.tick(map.get());
    }
  }
  base::Epoch back_since() { return membership.owners(7).at(1).back_since; }

  SlotMapPtr map;
};

Join join_with(base::Epoch epoch) {
  Join join = join_of();
  join.map_epoch = epoch;
  return join;
}

}  // namespace membership_return_test

using namespace membership_return_test;

TEST_CASE("an owner was silent, and a node did not reach it: the next map says that it is back") {
  Watched w;
  CHECK(w.back_since() == 0);
  w.pass_without_b(3 * kNsPerSecond, false);
  CHECK(w.state("b") == "away");
  CHECK(w.back_since() == 0);
  const std::uint64_t revision = w.membership.owners_revision();
  w.beat(2);
  CHECK(w.membership.owners_revision() != revision);
  CHECK(w.back_since() == 7);
  CHECK(w.membership.owners().at(1).back_since == 0);  // where nothing is kept twice
  // Said once, and then kept.
  const SlotMapPtr next =
      build_slot_map(7, w.membership.owners(7), w.map.get(), w.map.get()).value();
  w.membership.note_map(*next);
  CHECK(w.membership.owners(8).at(1).back_since == 7);
}

TEST_CASE("all nodes reached it all the time, or its connection broke for a moment: no such map") {
  Watched w;
  SUBCASE("reached") {
    w.pass_without_b(3 * kNsPerSecond, true);
    CHECK(w.state("b") == "away");
    w.beat(2);
  }
  SUBCASE("a moment") {
    w.membership.disconnected(2);
    CHECK(w.join(4, storage("b", 2), join_with(1)) == Kind::accepted);
  }
  SUBCASE("it wants another weight, before it has had a map") {
    CHECK(w.join(2, storage("b", 2), join_with(0)) == Kind::accepted);
  }
  CHECK(w.state("b") == "live");
  CHECK(w.back_since() == 0);
}

TEST_CASE("another process has the objects of the last one: back, when it has recovered them") {
  Watched w;
  w.membership.disconnected(2);
  Join join = join_with(0);
  SUBCASE("it recovers") {
    join.recovering = true;
    CHECK(w.join(4, storage("b", 2), join) == Kind::accepted);
    CHECK(w.back_since() == 0);
    Heartbeat heartbeat;
    heartbeat.recovering = true;
    CHECK(w.membership.heard(4, heartbeat));
    CHECK(w.back_since() == 0);
    const std::uint64_t revision = w.membership.owners_revision();
    w.beat(4);
    CHECK(w.membership.owners_revision() != revision);
  }
  SUBCASE("it had nothing to recover") {
    CHECK(w.join(4, storage("b", 2), join) == Kind::accepted);
  }
  CHECK(w.back_since() == 7);
}

TEST_CASE("another incarnation has nothing: its slots are new to it, and that says it all") {
  Watched w;
  w.membership.disconnected(2);
  w.pass_without_b(2 * kNsPerSecond, false);
  CHECK(w.join(4, storage("b", 5), join_with(0)) == Kind::accepted);
  CHECK(w.back_since() == 0);
}

TEST_CASE("a manager knows from the map who was back") {
  Watched w;
  auto list = w.membership.owners();
  list[1].back_since = 4;
  const SlotMapPtr map = build_slot_map(4, list, w.map.get(), w.map.get()).value();
  Fixture next;
  next.membership.restore(*map);
  CHECK(next.membership.owners(9).at(1).back_since == 4);
}

TEST_CASE("a manager says who is back in a map that moves nothing, where objects are kept twice") {
  manager_rig::Rig rig;
  bool is_kept_twice = false;
  SUBCASE("twice") {
    is_kept_twice = true;
  }
  SUBCASE("once") {}
  if (is_kept_twice) rig.config.mirrors = Mirrors::apart;
  rig.kill_manager();
  rig.start_manager();
  auto& a = rig.add("a", 1);
  rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  const SlotMapPtr before = a.maps.back();
  REQUIRE(before->members().size() == 2);
  // Its process ends, and the next one has its objects.
  auto& was = *rig.daemons.back();
  rig.remove(was);
  rig.add("b", 2);
  rig.run(2 * kNsPerSecond);
  const SlotMapPtr now = a.maps.back();
  CHECK((now->epoch() > before->epoch()) == is_kept_twice);
  CHECK(now->owners() == before->owners());
  CHECK(now->members()[1].back_since == (is_kept_twice ? now->epoch() : 0));
}
