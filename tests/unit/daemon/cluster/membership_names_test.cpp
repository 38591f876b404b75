// Whose a name is: its holder's while that one may come back.
#include <doctest/doctest.h>

#include "tests/unit/daemon/cluster/membership_fixture.h"

TEST_CASE("a name is its holder's while that one lives; then the next one's, for ever") {
  using namespace membership_test;
  Fixture f;
  CHECK(f.join(1, storage("a", 1)) == Kind::accepted);
  const JoinVerdict taken = f.membership.join(2, storage("a", 2), join_of());
  CHECK(taken.kind == Kind::refused);
  CHECK(taken.reason.find("storage/a") != std::string::npos);
  CHECK(taken.reason.find(incarnation(1).text()) != std::string::npos);
  // Another role may have the same name.
  CHECK(f.join(3, {incarnation(3), ClusterRole::node, "a"}) == Kind::accepted);

  SUBCASE("its connection has ended, a moment ago") {
    f.membership.disconnected(1);
    CHECK(f.join(4, storage("a", 2)) == Kind::refused);
    f.pass(900 * kNsPerMs);
    CHECK(f.join(4, storage("a", 2)) == Kind::refused);
    f.pass(100 * kNsPerMs);
  }
  SUBCASE("it is silent") {
    f.pass(kNsPerSecond);
  }
  CHECK(f.join(4, storage("a", 2)) == Kind::accepted);
  CHECK(f.owners() == 2);
  CHECK(f.membership.retired() == std::vector<DaemonIdentity>{storage("a", 1)});
  // The former incarnation wakes up.
  CHECK_FALSE(f.membership.heard(1, {}));
  CHECK(f.join(5, storage("a", 1)) == Kind::refused_for_ever);
  f.membership.disconnected(4);
  f.pass(20 * kNsPerSecond);
  CHECK(f.join(6, storage("a", 1)) == Kind::refused_for_ever);
  CHECK(f.join(7, storage("a", 2)) == Kind::accepted);
}

TEST_CASE("a name stays its holder's while it may be on its way back") {
  using namespace membership_test;
  for (const bool is_first : {false, true}) {
    for (const bool comes_back : {false, true}) {
      Fixture f;
      f.join(1, storage("a", 1));
      f.join(2, {incarnation(2), ClusterRole::node, "n"}, join_of(0));
      const auto stranger = [&](ConnectionId id) { return f.join(id, storage("a", 11)); };
      const auto node = [&](ConnectionId id, std::uint64_t number) {
        return f.join(id, {incarnation(number), ClusterRole::node, "n"}, join_of(0));
      };
      // The manager was stopped. Both have hung up, and maybe it hears of the stranger first.
      f.clock.advance_ns(2500 * kNsPerMs);
      if (is_first) CHECK(stranger(10) == Kind::refused);
      f.membership.tick(nullptr);
      f.membership.disconnected(1);
      f.membership.disconnected(2);
      CHECK(stranger(11) == Kind::refused);
      CHECK(node(12, 12) == Kind::refused);
      CHECK(node(13, 2) == Kind::accepted);
      f.pass(f.config.member_timeout_ns + f.config.redial_ns - 100 * kNsPerMs);
      CHECK(stranger(20) == Kind::refused);
      if (comes_back) {
        CHECK(f.join(21, storage("a", 1)) == Kind::accepted);
        CHECK(stranger(22) == Kind::refused);
        continue;
      }
      f.pass(100 * kNsPerMs);
      CHECK(stranger(23) == Kind::accepted);
      CHECK(f.join(24, storage("a", 1)) == Kind::refused_for_ever);
    }
  }
}

TEST_CASE("a name stays its holder's for that time also when its slots have moved") {
  using namespace membership_test;
  for (const bool comes_back : {false, true}) {
    MembershipConfig config;
    config.rejoin_grace_ns = 2 * kNsPerSecond;  // shorter than the time to find a manager
    Fixture f(config);
    const base::TimeNs kept_until_ns =
        f.clock.now_ns() + config.member_timeout_ns + config.redial_ns;
    f.membership.restore(
        *slot_map_of(7, {member("a", 1), member("b", 2), member("c", 3)}, nullptr, nullptr));
    const auto stranger = [&](ConnectionId id) { return f.join(id, storage("a", 11)); };
    f.join(1, storage("b", 2));
    f.join(2, storage("c", 3));
    const auto pass = [&](base::TimeNs ns) {
      for (; ns > 0; ns -= 100 * kNsPerMs) {
        for (const ConnectionId id : {1U, 2U}) f.membership.heard(id, {});
        f.pass(100 * kNsPerMs);
      }
    };
    CHECK(stranger(10) == Kind::refused);
    pass(config.rejoin_grace_ns + 200 * kNsPerMs);
    CHECK(f.owners() == 2);
    const JoinVerdict verdict = f.membership.join(11, storage("a", 11), join_of());
    CHECK(verdict.kind == Kind::refused);
    CHECK(verdict.reason.find(incarnation(1).text()) != std::string::npos);
    pass(kept_until_ns - f.clock.now_ns() - 100 * kNsPerMs);
    CHECK(stranger(12) == Kind::refused);
    if (comes_back) {
      CHECK(f.join(13, storage("a", 1)) == Kind::accepted);
      CHECK(f.owners() == 3);
    }
    f.clock.advance_ns(config.member_timeout_ns / 2);  // a stop, and no turn before the next Join
    CHECK(stranger(14) == (comes_back ? Kind::refused : Kind::accepted));
  }
}

TEST_CASE("the same incarnation on a new connection: the old one is to be closed") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  const JoinVerdict again = f.membership.join(2, storage("a", 1), join_of(2 * kGiB));
  CHECK(again.kind == Kind::accepted);
  CHECK(again.superseded == 1);
  // Its end is no end of the member.
  f.membership.disconnected(1);
  CHECK(f.state("a") == "live");
  CHECK(f.membership.owners()[0].weight_bytes == 2 * kGiB);
  CHECK(f.membership.retired().empty());
}

TEST_CASE("an incarnation has one name, whoever else says that it is his") {
  using namespace membership_test;
  Fixture f;
  CHECK(f.join(1, storage("a", 1)) == Kind::accepted);
  // Not for ever: the other one may be the liar.
  const JoinVerdict verdict = f.membership.join(2, storage("b", 1), join_of());
  CHECK(verdict.kind == Kind::refused);
  CHECK(verdict.reason.find("storage/a") != std::string::npos);
  CHECK(f.join(3, {incarnation(1), ClusterRole::node, "a"}, join_of(0)) == Kind::refused);
  f.membership.restore(*slot_map_of(7, {member("c", 1), member("d", 2)}, nullptr, nullptr));
  CHECK(f.state("c").empty());
  CHECK(f.state("d") == "away");
  CHECK(f.owners() == 2);
  CHECK(f.join(4, storage("a", 1)) == Kind::accepted);
  CHECK(build_slot_map(8, f.membership.owners(), nullptr, nullptr).has_value());
}

TEST_CASE("an incarnation that is retired does not come back by another member's map") {
  using namespace membership_test;
  Fixture before;
  before.join(1, storage("a", 1));
  before.join(2, storage("b", 2));
  const SlotMapPtr map = slot_map_of(5, before.membership.owners(), nullptr, nullptr);
  Fixture f;
  f.membership.restore(std::vector<DaemonIdentity>{storage("a", 1)});
  f.membership.restore_hearsay(*map);
  CHECK(f.state("a") == "");
  CHECK(f.state("b") == "away");
}

TEST_CASE("one that drains takes no name from a daemon that is away, and so no slots") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  f.join(2, storage("b", 2));
  f.membership.disconnected(1);
  for (int i = 0; i < 20; ++i) {
    f.membership.heard(2, {});
    f.pass(100 * kNsPerMs);
  }
  Join leaving = join_of();
  leaving.draining = true;
  CHECK(f.join(3, storage("a", 3), leaving) == Kind::refused_for_ever);
  CHECK(f.owners() == 2);
  CHECK(f.join(4, storage("a", 1)) == Kind::accepted);
  // Its own name, or one that nobody has, it may say.
  CHECK(f.join(5, storage("a", 1), leaving) == Kind::accepted);
  CHECK(f.join(6, storage("c", 6), leaving) == Kind::accepted);
  CHECK(f.owners() == 1);
}
