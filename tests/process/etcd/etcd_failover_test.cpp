// How long a cluster is without a manager that can change maps: one that leads is killed or
// stopped, alone and together with the leader of etcd's three members. No get fails meanwhile.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>

#include "tests/process/etcd/busy_cluster.h"

namespace etcd_failover_test {

using namespace etcd_processes;
using Clock = std::chrono::steady_clock;

std::int64_t ms_since(Clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since).count();
}

// Each row has a word about who is silent, and the whole is there soon.
void check_report(const DaemonProcess& asked, std::size_t silent) {
  const auto since = Clock::now();
  const auto rows = asked.report("managers")["managers"];
  MESSAGE("`simmctl managers` took " << ms_since(since) << " ms");
  REQUIRE(rows.size() == 2);
  CHECK(rows[silent]["state"] == "away");
  CHECK_FALSE(rows[silent]["trouble"].get<std::string>().empty());
}

// The leading manager gets that signal, and if `with_etcd` etcd's leader too. One storage daemon
// joins at that moment.
void fail(Busy& busy, EtcdProcess& etcd, int number, bool with_etcd) {
  const std::string what = "signal " + std::to_string(number) +
                           (with_etcd ? " to both leaders" : " to the manager that leads");
  INFO(what);
  const std::size_t old = busy.cluster.await_leader({0, 1});
  const std::size_t member = etcd.leader();
  DaemonProcess& manager = *busy.cluster.managers[old];
  const auto since = Clock::now();
  manager.signal(number);
  if (with_etcd) etcd.signal(member, number);
  if (number == SIGKILL) CHECK(manager.wait() == 1000 + SIGKILL);
  busy.begin_to_grow();
  check_report(*busy.node, old);
  busy.await_growth();
  MESSAGE(what << ": the next map took " << ms_since(since) << " ms");
  if (number == SIGKILL) {
    REQUIRE(manager.start());
    if (with_etcd) etcd.restart(member);
  } else {
    if (with_etcd) etcd.signal(member, SIGCONT);
    // It was not there for longer than its lease: what it still believes changes nothing.
    manager.signal(SIGCONT);
  }
  REQUIRE(eventually([&] { return !Managed::leads(manager); }, kPatienceMs));
  INFO(busy.load.findings.failures_text());
  CHECK(busy.load.findings.failed_gets == 0);
}

}  // namespace etcd_failover_test

TEST_CASE("both leaders are killed at once: another manager and another member of etcd lead") {
  using namespace etcd_failover_test;
  EtcdProcess etcd(3);
  Busy busy(etcd);
  fail(busy, etcd, SIGKILL, true);
  if (number_from("SIMM_ETCD_LONG", 0) > 0) {
    fail(busy, etcd, SIGSTOP, true);
    fail(busy, etcd, SIGSTOP, false);
    fail(busy, etcd, SIGKILL, false);
  }
  busy.check();
}

TEST_CASE("a follower of etcd is stopped, another one killed later: the same manager leads on") {
  using namespace etcd_failover_test;
  EtcdProcess etcd(3);
  Busy busy(etcd);
  const std::size_t leader = busy.cluster.await_leader({0, 1});
  const std::size_t first = etcd.leader();
  for (const int number : {SIGSTOP, SIGKILL}) {
    const std::size_t follower = (first + (number == SIGSTOP ? 1 : 2)) % 3;
    etcd.signal(follower, number);
    const auto took = busy.grow();
    MESSAGE("without a follower of etcd a map took " << took.count() << " ms");
    CHECK(Managed::leads(*busy.cluster.managers[leader]));
    if (number == SIGKILL) {
      etcd.restart(follower);
    } else {
      etcd.signal(follower, SIGCONT);
    }
  }
  busy.check();
}
