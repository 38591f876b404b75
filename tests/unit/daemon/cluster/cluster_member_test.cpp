#include "daemon/cluster/cluster_member.h"

#include <doctest/doctest.h>

#include "daemon/cluster/cluster_codec.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace cluster_member_test {

using namespace manager_rig;
using simm::Status;

Bytes push_of(base::Epoch epoch, std::uint32_t count) {
  return encode(ManagerMessage(MapPush{slot_map_of(epoch, members(count), nullptr, nullptr)}))
      .value();
}

}  // namespace cluster_member_test

TEST_CASE("a daemon that starts before its manager waits and says so") {
  using namespace cluster_member_test;
  Rig rig;
  rig.kill_manager();
  Daemon& a = rig.add("a", 1);
  const base::TimeNs started_ns = rig.clock.now_ns();
  rig.run(10 * kNsPerSecond);
  CHECK(a.member.state() == LinkState::waiting);
  CHECK(std::string(link_state_name(a.member.state())) == "waiting for the manager");
  CHECK(a.member.state_since_ns() == started_ns);
  CHECK(a.member.map() == nullptr);
  CHECK_FALSE(a.member.owns_nothing());
  CHECK(a.member.ask({1, Topic::nodes, ""}) == Status::unreachable);
  CHECK(a.member.next_deadline_ns() == base::kNoDeadline);
  rig.start_manager();
  rig.run(2 * kNsPerSecond);
  CHECK(a.member.state() == LinkState::joined);
  CHECK(a.epoch() == 1);
}

TEST_CASE("an older map, or the same epoch again, is never taken") {
  using namespace cluster_member_test;
  Rig rig;
  Daemon& a = rig.add("s0", 1);
  a.connection = 900;
  a.member.on_connected();
  a.member.on_message(push_of(5, 2));
  a.member.on_message(push_of(4, 3));
  a.member.on_message(push_of(5, 3));
  CHECK(a.maps.size() == 1);
  CHECK(a.member.map()->members().size() == 2);
  a.member.on_message(push_of(6, 3));
  CHECK(a.epoch() == 6);
}

TEST_CASE("a manager that falls silent is dialled anew; the map stays") {
  using namespace cluster_member_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(2 * kNsPerSecond);
  a.reachable = false;
  rig.run(2 * kNsPerSecond);
  CHECK(a.member.state() == LinkState::alone);
  CHECK(a.member.reason() == "the manager does not answer");
  CHECK(a.epoch() == 1);
  a.reachable = true;
  rig.run(1 * kNsPerSecond);
  CHECK(a.member.state() == LinkState::joined);
  CHECK(a.member.reason().empty());
}

TEST_CASE("a manager that accepts a connection and says nothing is given up") {
  using namespace cluster_member_test;
  Rig rig;
  rig.kill_manager();
  Daemon& a = rig.add("a", 1);
  a.connection = 900;
  a.member.on_connected();
  CHECK(a.member.state() == LinkState::joining);
  CHECK(a.member.next_deadline_ns() == rig.clock.now_ns() + 2 * kNsPerSecond);
  rig.run(1'900 * kNsPerMs);
  CHECK(a.closed.empty());
  rig.run(200 * kNsPerMs);
  CHECK(a.closed == std::vector<std::string>{"the manager does not answer"});
  CHECK(a.member.state() == LinkState::waiting);
}

TEST_CASE(
    "a heartbeat has the load once a second, and at once when it is asked for or has joined") {
  using namespace cluster_member_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  const auto told_ms = [&] {
    return rig.manager->membership().members().at("storage/a").last.load_ms;
  };
  const auto changes = [&](base::TimeNs for_ns) {
    int count = 0;
    for (std::uint64_t before = told_ms(); for_ns > 0; for_ns -= 10 * kNsPerMs) {
      rig.run(10 * kNsPerMs);
      count += std::exchange(before, told_ms()) == told_ms() ? 0 : 1;
    }
    return count;
  };
  rig.run(1 * kNsPerSecond);
  CHECK(told_ms() > 0);
  const int loads = a.loads;
  const int changed = changes(10 * kNsPerSecond);
  CHECK(changed >= 9);
  CHECK(changed <= 10);
  CHECK(a.loads - loads > 2 * changed);  // so many heartbeats came
  a.member.report_load();
  rig.run(10 * kNsPerMs);
  CHECK(told_ms() >= a.clock_ms() - 20);
  // A manager that knows nothing of it yet.
  rig.kill_manager();
  rig.start_manager();
  rig.run(rig.config.heartbeat_ns + 100 * kNsPerMs);
  CHECK(told_ms() >= a.clock_ms() - 200);
}

TEST_CASE("garbage from the manager closes the connection, no more") {
  using namespace cluster_member_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(2 * kNsPerSecond);
  a.member.on_message(Bytes(64, std::byte{0xff}));
  CHECK(a.closed.size() == 1);
  CHECK(a.member.state() == LinkState::alone);
  CHECK(a.epoch() == 1);
  a.member.on_message(push_of(9, 1));  // of the connection that has gone
  CHECK(a.epoch() == 1);
}

TEST_CASE("an expelled daemon does not come back on its own") {
  using namespace cluster_member_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  a.connection = 900;
  a.member.on_connected();
  a.member.on_message(encode(ManagerMessage(Refused{true, "gone for good"})).value());
  CHECK(a.expelled == "gone for good");
  CHECK(a.member.state() == LinkState::expelled);
  a.connection = 901;
  a.member.on_connected();
  CHECK(a.closed.size() == 2);
  a.member.on_closed();
  CHECK(a.member.state() == LinkState::expelled);
  CHECK(a.member.do_work() == 0);
}

TEST_CASE("what the manager that leads has against a daemon is not hidden by those that stand by") {
  using namespace cluster_member_test;
  Rig rig;
  rig.kill_manager();
  Daemon& a = rig.add("a", 1);
  const auto refused = [&a](const Refused& refusal) {
    a.connection = 900;
    a.member.on_connected();
    a.member.on_message(encode(ManagerMessage(refusal)).value());
    CHECK(a.member.state() == LinkState::refused);
    return a.member.reason();
  };
  const Refused stands_by{false, "this manager stands by", true};
  // Nobody else has said anything.
  CHECK(refused(stands_by) == "this manager stands by");
  CHECK(refused({false, "its name is taken"}) == "its name is taken");
  rig.run(6 * kNsPerSecond);
  CHECK(refused(stands_by) == "its name is taken");
  CHECK(refused({false, "its pool is too large"}) == "its pool is too large");
  CHECK(refused(stands_by) == "its pool is too large");
  // The one that led has gone meanwhile.
  rig.run(10 * kNsPerSecond);
  CHECK(refused(stands_by) == "this manager stands by");
  // Once it has joined, nothing old is said.
  CHECK(refused({false, "its name is taken"}) == "its name is taken");
  a.member.on_connected();
  a.member.on_message(encode(ManagerMessage(Joined{kNsPerSecond, 1, 6})).value());
  CHECK(a.member.state() == LinkState::joined);
  a.member.on_closed();
  CHECK(refused(stands_by) == "this manager stands by");
}
