// How often daemons send heartbeats: less often where they are many, and never so seldom that the
// manager takes one for away, or that a dead manager is noticed late.
#include <doctest/doctest.h>

#include "tests/unit/daemon/cluster/manager_rig.h"

namespace heartbeat_interval_test {

using namespace manager_rig;

// Of one daemon in four seconds.
int heartbeats_of(Rig& rig, const Daemon& daemon) {
  const int before = daemon.loads;
  rig.run(4 * kNsPerSecond);
  return daemon.loads - before;
}

// By one more or fewer, by where in an interval the count began.
bool is_about(int counted, int expected) {
  return counted >= expected - 1 && counted <= expected + 1;
}

bool all_live(const Rig& rig) {
  for (const auto& daemon : rig.daemons) {
    if (daemon->member.state() != LinkState::joined || !daemon->closed.empty()) return false;
  }
  return true;
}

// From now on each daemon that is connected makes the intervals of all longer by that.
void restart_with_share(Rig& rig, base::TimeNs share_ns) {
  rig.config.heartbeat_share_ns = share_ns;
  rig.kill_manager();
  rig.start_manager();
}

TEST_CASE("each of many daemons sends its heartbeats less often, four in its timeout at least") {
  Rig rig;
  restart_with_share(rig, 60 * kNsPerMs);  // few daemons are many here
  Daemon& first = rig.add("d1", 1);
  rig.run(2 * kNsPerSecond);
  CHECK(is_about(heartbeats_of(rig, first), 40));  // one daemon: every 100 ms
  rig.add("d2", 2);
  rig.add("d3", 3);
  rig.run(2 * kNsPerSecond);
  CHECK(is_about(heartbeats_of(rig, first), 22));  // three: every 180 ms
  for (std::uint64_t number = 4; number <= 20; ++number) {
    rig.add("d" + std::to_string(number), number);
  }
  rig.run(2 * kNsPerSecond);
  CHECK(is_about(heartbeats_of(rig, first), 16));  // twenty: every 250 ms, not every 1,200
  CHECK(all_live(rig));
  while (rig.daemons.size() > 1) rig.remove(*rig.daemons.back());
  rig.run(2 * kNsPerSecond);
  CHECK(is_about(heartbeats_of(rig, first), 40));
}

TEST_CASE("with rare heartbeats a manager that says nothing is given up as soon") {
  Rig rig;
  restart_with_share(rig, 250 * kNsPerMs);
  Daemon& daemon = rig.add("a", 1);
  rig.run(4 * kNsPerSecond);
  REQUIRE(daemon.closed.empty());
  daemon.reachable = false;
  rig.run(700 * kNsPerMs);
  CHECK(daemon.closed.empty());
  rig.run(800 * kNsPerMs);
  CHECK(daemon.closed == std::vector<std::string>{"the manager does not answer"});
}

// Answers to heartbeats of one daemon in four seconds.
int answers_to(Rig& rig, const Daemon& daemon) {
  const int before = daemon.acknowledged;
  rig.run(4 * kNsPerSecond);
  return daemon.acknowledged - before;
}

TEST_CASE("where daemons are many one heartbeat in some is answered, and news are told at once") {
  Rig rig;
  restart_with_share(rig, 60 * kNsPerMs);
  Daemon& first = rig.add("d1", 1);
  rig.run(2 * kNsPerSecond);
  CHECK(is_about(answers_to(rig, first), 40));  // alone: each
  for (std::uint64_t number = 2; number <= 20; ++number) {
    rig.add("d" + std::to_string(number), number);
  }
  rig.run(2 * kNsPerSecond);
  CHECK(is_about(answers_to(rig, first), 8));  // every second one of those that come every 250 ms
  CHECK(all_live(rig));
  // Another interval is told with the next heartbeat.
  rig.remove(*rig.daemons.back());
  while (rig.daemons.size() > 3) rig.remove(*rig.daemons.back());
  rig.run(260 * kNsPerMs);
  CHECK(is_about(heartbeats_of(rig, first), 22));
}

TEST_CASE("a manager of many daemons may be busy for most of a second, and nobody is lost") {
  Rig rig;
  restart_with_share(rig, 125 * kNsPerMs);
  Daemon& daemon = rig.add("a", 1);
  rig.run(4 * kNsPerSecond);
  daemon.reachable = false;
  rig.run(700 * kNsPerMs);
  daemon.reachable = true;
  rig.run(kNsPerSecond);
  CHECK(daemon.closed.empty());
}

TEST_CASE("a manager of an older release says no interval, and that of its Joined stays") {
  Rig rig;
  Daemon& daemon = rig.add("a", 1);
  rig.run(2 * kNsPerSecond);
  rig.send(daemon.connection, encode(ManagerMessage(HeartbeatAck{1, 1, 6, 0})).value());
  CHECK(is_about(heartbeats_of(rig, daemon), 40));
  // One that no manager may ask for ends the connection.
  rig.send(daemon.connection, encode(ManagerMessage(HeartbeatAck{1, 1, 6, 1})).value());
  rig.run(20 * kNsPerMs);
  CHECK(daemon.closed == std::vector<std::string>{"heartbeats every 1 ns"});
}

}  // namespace heartbeat_interval_test
