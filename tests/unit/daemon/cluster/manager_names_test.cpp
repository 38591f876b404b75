// Whose a name is, as the daemons see it: a manager that they join, lose and find again.
#include <doctest/doctest.h>

#include "tests/unit/daemon/cluster/manager_rig.h"

TEST_CASE("two live daemons of one name: the second is refused, says why, and keeps asking") {
  using namespace manager_rig;
  Rig rig;
  Daemon& first = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  Daemon& second = rig.add("a", 2);
  rig.run(3 * kNsPerSecond);
  CHECK(second.member.state() != LinkState::joined);
  REQUIRE(!second.closed.empty());
  CHECK(second.closed[0].find("is taken by a live daemon") != std::string::npos);
  CHECK(second.expelled.empty());
  CHECK(first.member.state() == LinkState::joined);
  CHECK(rig.epoch() == 1);
  // The first one stops: the second takes its place.
  rig.remove(first);
  rig.run(2 * kNsPerSecond);
  CHECK(second.member.state() == LinkState::joined);
  CHECK(rig.slots_of(second) == base::kSlotCount);
}

TEST_CASE("an incarnation whose place was taken while it slept is expelled, also after a restart") {
  using namespace manager_rig;
  Rig rig;
  Daemon& old = rig.add("a", 1);
  rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  old.frozen = true;
  rig.run(2 * kNsPerSecond);
  Daemon& fresh = rig.add("a", 11);
  rig.run(1 * kNsPerSecond);
  CHECK(rig.slots_of(fresh) == 8192);
  SUBCASE("the same manager") {}
  SUBCASE("another manager") {
    rig.kill_manager();
    rig.start_manager();
  }
  old.frozen = false;
  rig.run(3 * kNsPerSecond);
  CHECK(old.member.state() == LinkState::expelled);
  CHECK(old.expelled.find("another incarnation") != std::string::npos);
  CHECK(fresh.member.state() == LinkState::joined);
  CHECK(rig.slots_of(fresh) == 8192);
}

TEST_CASE("an incarnation that was forgotten before its place was taken is expelled, too") {
  using namespace manager_rig;
  Rig rig;
  rig.config.settle_ns = 5 * kNsPerSecond;
  rig.kill_manager();
  rig.start_manager();
  rig.add("a", 1);
  Daemon& old = rig.add("b", 2);
  rig.add("c", 3);
  rig.run(10 * kNsPerSecond);
  REQUIRE(rig.epoch() == 1);
  old.frozen = true;
  rig.hang_up(old);
  // Its grace is over, and the map without it is about to be made.
  rig.run(rig.config.membership.rejoin_grace_ns + kNsPerSecond);
  REQUIRE(rig.epoch() == 1);
  Daemon& fresh = rig.add("b", 12);
  rig.run(10 * kNsPerSecond);
  REQUIRE(rig.epoch() == 2);
  REQUIRE(rig.slots_of(fresh) > 0);
  fresh.frozen = true;
  rig.hang_up(fresh);
  SUBCASE("the same manager") {}
  SUBCASE("another manager") {
    rig.kill_manager();
    rig.start_manager();
  }
  rig.run(2 * rig.config.membership.rejoin_grace_ns);
  REQUIRE(rig.slots_of(fresh) == 0);
  old.frozen = false;
  rig.run(10 * kNsPerSecond);
  CHECK(old.member.state() == LinkState::expelled);
  CHECK(rig.slots_of(old) == 0);
}
