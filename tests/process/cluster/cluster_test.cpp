// Four processes: a manager, two storage daemons and a node, and what their clients see while some
// of them die, are stopped, and come back.
#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/process/cluster/cluster_processes.h"

namespace cluster_test {

using namespace cluster_processes;
using simm::Status;
using Clock = std::chrono::steady_clock;

constexpr int kPages = 64;

// `report`: the answer to "nodes".
bool are_live(const nlohmann::json& report, std::size_t count) {
  if (!report.is_object() || report["nodes"].size() != count) return false;
  return std::all_of(report["nodes"].begin(), report["nodes"].end(),
                     [](const auto& one) { return one["state"] == "live"; });
}

struct FourProcesses {
  explicit FourProcesses(int grace_ms = 30'000, int detection_ms = 5'000)
      : cluster(grace_ms, "", detection_ms) {
    REQUIRE(cluster.manager.start());
    REQUIRE(a->start());
    REQUIRE(b->start());
    REQUIRE(node->start());
    // Nobody is left who would take a put under an older map.
    const auto is_settled = [&] {
      for (const DaemonProcess* daemon : {a.get(), b.get(), node.get()}) {
        if (!uses_the_map_of(*daemon, cluster.manager)) return false;
      }
      return sees_members(*node, 2);
    };
    REQUIRE(eventually(is_settled));
  }
  ClusterProcesses cluster;
  std::unique_ptr<DaemonProcess> a = cluster.storage("a");
  std::unique_ptr<DaemonProcess> b = cluster.storage("b");
  std::unique_ptr<DaemonProcess> node = cluster.node("n");
};

TEST_CASE("what one client puts through its node lies on the storage daemons, and comes back") {
  FourProcesses world;
  Checker checker(*world.node);
  CHECK(checker.put_all(kPages, Status::ok) == kPages);
  CHECK(checker.count(kPages, Status::ok) == kPages);
  const std::uint64_t on_a = world.a->counter("server.0.put_pages");
  const std::uint64_t on_b = world.b->counter("server.0.put_pages");
  CHECK(on_a > 0);
  CHECK(on_b > 0);
  CHECK(on_a + on_b == kPages);
  // Another node of the cluster finds them.
  const auto other = world.cluster.node("n2");
  REQUIRE(other->start());
  REQUIRE(eventually([&] { return sees_members(*other, 2); }));
  Checker there(*other);
  CHECK(there.count(kPages, Status::ok) == kPages);

  // What simmctl shows, asked at the node.
  CHECK(eventually([&] { return are_live(world.node->report("nodes"), 4); }));
  int slots = 0;
  const auto report = world.node->report("nodes");
  for (const auto& one : report["nodes"]) slots += one["slots"].get<int>();
  CHECK(slots == 16384);
  CHECK(world.node->report("slots")["members"].size() == 2);
  CHECK(world.cluster.manager.report("nodes")["nodes"].size() == 4);
  CHECK(world.node->report("peers", "storage/a")["askers"].size() == 2);
  CHECK(world.node->report("daemon_stats", "b")["server.0.put_pages"] == on_b);
  CHECK(world.node->ask("peers", "storage/c").find("no daemon 'storage/c'") == 0);
  CHECK(world.node->report("status")["cluster"]["state"] == "joined");
}

TEST_CASE("a killed storage daemon is a miss, the other one serves on, and it comes back") {
  FourProcesses world;
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(world.a->counter("server.0.put_pages"));
  world.a->signal(SIGKILL);
  CHECK(world.a->wait() == 1000 + SIGKILL);
  // Never a timeout, not even for the first call: it is a miss as soon as the connection breaks.
  CHECK(checker.count(kPages, Status::ok) == kPages - on_a);
  CHECK(checker.count(kPages, Status::not_found) == on_a);
  CHECK(checker.put_all(kPages, Status::unreachable) == on_a);
  // Within the grace its successor of the same name gets the same slots, empty.
  REQUIRE(world.a->start());
  REQUIRE(eventually([&] { return checker.put_all(kPages, Status::ok) == kPages; }));
  CHECK(checker.count(kPages, Status::ok) == kPages);
  CHECK(world.a->counter("server.0.put_pages") > 0);
}

TEST_CASE(
    "a stopped storage daemon costs its detection time once, and goes on when it is continued") {
  FourProcesses world(30'000, 300);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(world.a->counter("server.0.put_pages"));
  world.a->signal(SIGSTOP);
  // A call's deadline is a second: without a detection time these would be time-outs.
  CHECK(checker.count(kPages, Status::not_found) == on_a);
  CHECK(eventually([&] { return world.node->counter("cluster.links.lost_silent") > 0; }));
  world.a->signal(SIGCONT);
  // It has lost nothing meanwhile.
  CHECK(eventually([&] { return checker.count(kPages, Status::ok) == kPages; }));
}

TEST_CASE("after its grace a dead daemon's slots are the others'") {
  FourProcesses world(500);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  world.a->signal(SIGKILL);
  CHECK(world.a->wait() == 1000 + SIGKILL);
  REQUIRE(eventually([&] { return checker.put_all(kPages, Status::ok) == kPages; }));
  CHECK(world.b->counter("server.0.put_pages") >= kPages);
  CHECK(checker.count(kPages, Status::ok) == kPages);
}

TEST_CASE("without its manager a cluster serves on, and a restarted one costs nothing") {
  FourProcesses world;
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const auto epoch = world.node->report("status")["cluster"]["epoch"];
  world.cluster.manager.signal(SIGKILL);
  CHECK(world.cluster.manager.wait() == 1000 + SIGKILL);
  CHECK(eventually([&] {
    return world.node->report("status")["cluster"]["state"] == "alone, with the last map";
  }));
  const auto end =
      Clock::now() + std::chrono::milliseconds(number_from("SIMM_MANAGER_AWAY_MS", 30'000));
  do {
    REQUIRE(checker.count(kPages, Status::ok) == kPages);
    REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
    ::usleep(200'000);
  } while (Clock::now() < end);
  CHECK(world.node->ask("nodes").find("no manager to ask: ") == 0);
  REQUIRE(world.cluster.manager.start());
  REQUIRE(eventually([&] { return are_live(world.node->report("nodes"), 3); }));
  CHECK(world.node->report("status")["cluster"]["epoch"] == epoch);
  CHECK(checker.count(kPages, Status::ok) == kPages);
}

TEST_CASE("a node that starts before everybody else serves its socket, waits, and says so") {
  ClusterProcesses cluster;
  const auto node = cluster.node("n");
  REQUIRE(node->start());
  Checker checker(*node);
  CHECK(checker.get(1) == Status::not_found);
  CHECK(checker.put(1) == Status::unreachable);
  CHECK(node->report("status")["cluster"]["state"] == "waiting for the manager");
  CHECK(node->ask("nodes").find("no manager to ask: waiting for the manager") == 0);
  CHECK(
      eventually([&] { return node->log().find("waiting for the manager") != std::string::npos; }));
  REQUIRE(cluster.manager.start());
  const auto a = cluster.storage("a");
  REQUIRE(a->start());
  REQUIRE(eventually([&] { return checker.put(1) == Status::ok; }));
  CHECK(checker.get(1) == Status::ok);
}

TEST_CASE("a storage daemon that is told to stop gives its slots away first") {
  FourProcesses world;
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  // Under load, so that requests are on their way in every moment of the stop.
  std::atomic<bool> is_over{false};
  std::thread load([&] {
    Checker busy(*world.node);
    for (int page = 1000; !is_over; page = page % 2000 + 1) {
      (void)busy.put(page);
      (void)busy.get(page);
    }
  });
  world.a->signal(SIGTERM);
  CHECK(world.a->wait() == 0);
  is_over = true;
  load.join();
  CHECK(world.a->log().find("work is left undone") == std::string::npos);
  REQUIRE(eventually([&] { return checker.put_all(kPages, Status::ok) == kPages; }));
  CHECK(checker.count(kPages, Status::ok) == kPages);
  const auto slots = world.node->report("slots");
  CHECK(slots["members"].size() == 1);
}

TEST_CASE("a node with a pool is a member, and serves its own clients and others") {
  ClusterProcesses cluster;
  REQUIRE(cluster.manager.start());
  const auto one = cluster.node("one", "64MiB");
  const auto two = cluster.node("two", "64MiB");
  REQUIRE(one->start());
  REQUIRE(two->start());
  const auto is_settled = [&] {
    return sees_members(*one, 1) && sees_members(*two, 1) &&
           uses_the_map_of(*one, cluster.manager) && uses_the_map_of(*two, cluster.manager);
  };
  REQUIRE(eventually(is_settled));
  Checker at_one(*one);
  Checker at_two(*two);
  REQUIRE(at_one.put_all(kPages, Status::ok) == kPages);
  CHECK(at_two.count(kPages, Status::ok) == kPages);
  CHECK(one->counter("server.0.put_pages") > 0);
  CHECK(two->counter("server.0.put_pages") > 0);
}

TEST_CASE("several data agents at both ends, each on a thread of its own") {
  const std::string keys = R"(, "threading": {"mode": "dedicated", "data_agents": 2})";
  ClusterProcesses cluster;
  REQUIRE(cluster.manager.start());
  const auto a = cluster.storage("a", keys);
  const auto node = cluster.node("n", "0", keys);
  REQUIRE(a->start());
  REQUIRE(node->start());
  const auto is_settled = [&] {
    return sees_members(*node, 1) && uses_the_map_of(*node, cluster.manager) &&
           uses_the_map_of(*a, cluster.manager);
  };
  REQUIRE(eventually(is_settled));
  // Two agents, two shards, two connections each.
  CHECK(node->report("peers")["peers"][0]["connections"] == 8);
  Checker one(*node);
  Checker two(*node, "other/");
  CHECK(one.put_all(kPages, Status::ok) == kPages);
  CHECK(two.put_all(kPages, Status::ok) == kPages);
  CHECK(one.count(kPages, Status::ok) == kPages);
  CHECK(two.count(kPages, Status::ok) == kPages);
  CHECK(a->counter("server.0.put_pages") > 0);
  CHECK(a->counter("server.1.put_pages") > 0);
}

TEST_CASE("storage daemons of forty shards each are all reached, and every put finds its place") {
  constexpr int kManyPages = 1000;
  const std::string wide = R"(, "threading": {"mode": "dedicated", "data_agents": 40},)"
                           R"( "node": {"pool_bytes": "700MiB"})";
  ClusterProcesses cluster;
  REQUIRE(cluster.manager.start());
  const auto a = cluster.storage("a", wide);
  const auto b = cluster.storage("b", wide);
  const auto node = cluster.node("n");
  for (DaemonProcess* daemon : {a.get(), b.get(), node.get()}) {
    daemon->launch();
    REQUIRE(daemon->await_ready(120'000));  // forty threads begin slowly on a busy machine
  }
  const auto is_settled = [&] {
    return sees_members(*node, 2) && uses_the_map_of(*node, cluster.manager) &&
           uses_the_map_of(*a, cluster.manager) && uses_the_map_of(*b, cluster.manager);
  };
  REQUIRE(eventually(is_settled));
  const auto peers = node->report("peers")["peers"];
  for (const auto& peer : peers) CHECK(peer["connections"] == 80);
  Checker checker(*node);
  CHECK(checker.put_all(kManyPages, Status::ok) == kManyPages);
  CHECK(checker.count(kManyPages, Status::ok) == kManyPages);
  CHECK(node->counter("cluster.links.lost_refused") == 0);
}

TEST_CASE("what several clients of a node read is fetched from its owner once") {
  constexpr int kShared = 16;
  FourProcesses world;
  // The shape of keys that ranks of one model share.
  const std::string hash = "0123456789abcdef0123456789abcdef";
  Checker one(*world.node, hash, "__k");
  Checker two(*world.node, hash, "__k");
  REQUIRE(one.put_all(kShared, Status::ok) == kShared);
  CHECK(one.count(kShared, Status::ok) == kShared);
  CHECK(two.count(kShared, Status::ok) == kShared);
  CHECK(world.node->counter("shared_reads.0.fetched_pages") == kShared);
  CHECK(world.node->counter("shared_reads.0.hits") == kShared);
  CHECK(world.a->counter("server.0.get_pages") + world.b->counter("server.0.get_pages") == kShared);
}

TEST_CASE("a daemon without the secret, or with another one, is kept out") {
  ClusterProcesses cluster;
  REQUIRE(cluster.manager.start());
  const SecretFile other;
  REQUIRE(::truncate(other.path().c_str(), 40) == 0);
  DaemonProcess stranger("\"cluster\": {\"manager\": \"" + cluster.address +
                             "\", \"secret_file\": \"" + other.path() + "\", \"node_name\": \"x\"}",
                         "storage");
  REQUIRE(stranger.start());
  CHECK(eventually([&] { return cluster.manager.counter("cluster.listener.refused") >= 2; }));
  CHECK(cluster.manager.report("nodes")["nodes"].empty());
  CHECK(stranger.report("status")["cluster"]["state"] == "waiting for the manager");
}

TEST_CASE("only daemons that the manager's list names own slots, and others say so") {
  ClusterProcesses cluster(
      30'000, R"(, "owners": [{"name": "a", "shards_max": 1}, {"name": "n", "shards_max": 1}])");
  REQUIRE(cluster.manager.start());
  const auto a = cluster.storage("a");
  const auto stranger = cluster.storage("b");
  REQUIRE(a->start());
  REQUIRE(stranger->start());
  const auto node = cluster.node("n");
  REQUIRE(node->start());
  REQUIRE(eventually([&] { return sees_members(*node, 1); }));
  const auto says_why = [&] {
    return stranger->report("errors").dump().find("not among the owners") != std::string::npos;
  };
  CHECK(eventually(says_why));
  CHECK(sees_members(*node, 1));
  Checker checker(*node);
  CHECK(checker.put_all(kPages, Status::ok) == kPages);
  CHECK(a->counter("server.0.put_pages") == kPages);
}

TEST_CASE("what can not be started says why") {
  const auto log_of = [](const std::string& keys, const std::string& role) {
    DaemonProcess daemon(keys, role);
    CHECK_FALSE(daemon.start());
    CHECK(daemon.wait() == EXIT_FAILURE);
    return daemon.log();
  };
  CHECK(log_of("", "storage").find("cluster.manager = nothing: a storage daemon needs") !=
        std::string::npos);
  CHECK(log_of(R"("node": {"pool_bytes": 0})", "node").find("only a node of a cluster") !=
        std::string::npos);
  CHECK(log_of(
            R"("cluster": {"manager": "127.0.0.1:1", "node_name": "x"}, "node": {"pool_bytes": 0})",
            "storage")
            .find("node.pool_bytes") != std::string::npos);
  CHECK(log_of(R"("cluster": {"node_name": "x"}, "manager": {"listen": "0.0.0.0:0"})", "manager")
            .find("cluster.secret_file") != std::string::npos);
  CHECK(log_of(R"("cluster": {"node_name": "x", "secret_file": "/nonexistent"})", "manager")
            .find("cluster.secret_file: /nonexistent") != std::string::npos);
}

}  // namespace cluster_test
