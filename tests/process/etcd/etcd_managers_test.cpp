// Several managers on a real etcd: the one that leads is killed, or stopped, and another one goes
// on with the same map; a cluster goes from a state file to etcd and back.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/etcd/etcd_cluster.h"

namespace etcd_managers_test {

using namespace etcd_processes;

TEST_CASE("a manager that leads is killed, then one is stopped: another goes on with the map") {
  const EtcdProcess etcd(3);
  Managed cluster(etcd);
  cluster.start_managers();
  const auto a = cluster.storage("a");
  const auto b = cluster.storage("b");
  const DaemonProcess* const members[] = {a.get(), b.get()};
  const auto node = cluster.node("n");
  REQUIRE((a->start() && b->start() && node->start()));
  REQUIRE(eventually([&] { return sees_members(*node, 2); }, kPatienceMs));
  PageLoad load;
  load.write(*node, "one/");

  std::size_t leader = cluster.await_leader({0, 1});
  std::uint64_t epoch = cluster.managers[leader]->report("status")["manager"]["epoch"];
  REQUIRE(epoch > 0);
  // Whoever is asked, a daemon or one of the managers, names the same one.
  for (const DaemonProcess* asked : {node.get(), cluster.managers[1 - leader].get()}) {
    const auto rows = asked->report("managers")["managers"];
    REQUIRE(rows.size() == (asked == node.get() ? 2 : 1));
    if (asked != node.get()) continue;
    CHECK(rows[leader]["state"] == "leads");
    CHECK(rows[leader]["epoch"] == epoch);
    CHECK(rows[leader]["lease_ms"] > 0);
    CHECK(rows[1 - leader]["state"] == "stands by");
    CHECK(rows[1 - leader]["term"] == rows[leader]["term"]);
    CHECK(rows[1 - leader]["leader"].get<std::string>().find(rows[leader]["name"]) == 0);
  }
  for (const int number : {SIGKILL, SIGSTOP}) {
    CAPTURE(number);
    DaemonProcess& old = *cluster.managers[leader];
    old.signal(number);
    if (number == SIGKILL) CHECK(old.wait() == 1000 + SIGKILL);
    const std::size_t other = 1 - leader;
    REQUIRE(cluster.await_leader({other}) == other);
    const auto rows = node->report("managers")["managers"];
    CHECK(rows[leader]["state"] == "away");
    CHECK(rows[other]["state"] == "leads");
    DaemonProcess& now = *cluster.managers[other];
    // All are back, and nothing has moved.
    REQUIRE(eventually(
        [&] {
          return std::all_of(std::begin(members), std::end(members), [&](const auto* member) {
            return uses_the_map_of(*member, now) &&
                   member->report("status")["cluster"]["state"] == "joined";
          });
        },
        kPatienceMs));
    CHECK(now.report("status")["manager"]["epoch"] == epoch);
    if (number == SIGKILL) {
      REQUIRE(old.start());
    } else {
      old.signal(SIGCONT);
    }
    CHECK(eventually([&] { return !Managed::leads(old); }, kPatienceMs));
    CHECK(Managed::leads(now));
    leader = other;
  }
  // Maps change as before.
  const auto c = cluster.storage("c");
  REQUIRE(c->start());
  REQUIRE(eventually([&] { return sees_members(*node, 3); }, kPatienceMs));
  CHECK(cluster.managers[leader]->report("status")["manager"]["epoch"] > epoch);
  load.check();
}

TEST_CASE("a cluster goes from a state file to etcd and back, with its epochs") {
  const EtcdProcess etcd;
  const SecretFile secret;
  const TemporaryDirectory directory;
  const std::string address = free_address();
  const auto manager = [&](const std::string& more) {
    return std::make_unique<DaemonProcess>(
        "\"cluster\": {\"secret_file\": \"" + secret.path() +
            "\", \"node_name\": \"m\"}, \"manager\": {\"listen\": \"" + address +
            "\", \"rejoin_grace_ms\": 60000, \"state_file\": \"" + (directory / "state") + "\"" +
            more + "}",
        "manager");
  };
  const auto storage = [&](const std::string& name) {
    return std::make_unique<DaemonProcess>("\"cluster\": {\"manager\": \"" + address +
                                               "\", \"secret_file\": \"" + secret.path() +
                                               "\", \"node_name\": \"" + name + "\"}",
                                           "storage");
  };
  std::vector<std::unique_ptr<DaemonProcess>> members;
  std::uint64_t epoch = 0;
  for (const std::string& more :
       {std::string(), ", " + etcd_keys(etcd.endpoints()), std::string()}) {
    CAPTURE(more);
    const auto running = manager(more);
    REQUIRE(running->start());
    REQUIRE(eventually([&] { return Managed::leads(*running); }, kPatienceMs));
    CHECK((epoch == 0 || running->report("status")["manager"]["epoch"] == epoch));
    members.push_back(storage("s" + std::to_string(members.size())));
    REQUIRE(members.back()->start());
    REQUIRE(eventually(
        [&] {
          const std::uint64_t now = running->report("status")["manager"]["epoch"];
          return now > epoch && std::all_of(members.begin(), members.end(), [&](const auto& one) {
                   return uses_the_map_of(*one, *running);
                 });
        },
        kPatienceMs));
    const std::uint64_t next = running->report("status")["manager"]["epoch"];
    CHECK(next > epoch);
    epoch = next;
    running->signal(SIGTERM);
    CHECK(running->wait() == 0);
  }
  CHECK(etcd.control("get --keys-only --prefix /simm/").find("/simm/simm/state") !=
        std::string::npos);
}

}  // namespace etcd_managers_test
