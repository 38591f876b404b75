// Storage daemons whose pools outlive them, in a cluster: what they still have when they come back,
// and what they must not have any more.
#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_directory.h"

namespace warm_cluster_test {

using namespace cluster_processes;
using simm::Status;
using simm::test_support::program;

constexpr int kPages = 64;

struct PoolPath {
  [[nodiscard]] std::string keys(const std::string& name) const {
    return R"(, "node": {"hugepages": "off", "pool_bytes": "64MiB", "pool_path": ")" +
           directory / name + R"("})";
  }
  simm::test_support::TemporaryDirectory directory{"/dev/shm"};
};

struct WarmWorld {
  explicit WarmWorld(int grace_ms = 30'000, bool moves_objects = true) : cluster(grace_ms) {
    cluster.moves_objects = moves_objects;
    a = cluster.storage("a", pools.keys("a"));
    b = cluster.storage("b", pools.keys("b"));
    node = cluster.node("n");
    REQUIRE(cluster.manager.start());
    REQUIRE(a->start());
    REQUIRE(b->start());
    REQUIRE(node->start());
    REQUIRE(eventually([&] { return settled(2); }));
  }
  [[nodiscard]] bool settled(std::size_t members) const {
    for (const DaemonProcess* daemon : {a.get(), b.get(), node.get()}) {
      if (daemon->pid() > 0 && !uses_the_map_of(*daemon, cluster.manager)) return false;
    }
    return sees_members(*node, members);
  }

  ClusterProcesses cluster;
  PoolPath pools;
  std::unique_ptr<DaemonProcess> a;
  std::unique_ptr<DaemonProcess> b;
  std::unique_ptr<DaemonProcess> node;
};

TEST_CASE(
    "a storage daemon that is killed or stopped comes back within the grace with its objects") {
  WarmWorld world;
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(world.a->counter("server.0.put_pages"));
  REQUIRE(on_a > 0);
  for (const int signal : {SIGKILL, SIGTERM}) {
    world.a->signal(signal);
    CHECK(world.a->wait(30'000) == (signal == SIGKILL ? 1000 + SIGKILL : 0));
    CHECK(checker.count(kPages, Status::not_found) == on_a);
    // Nothing of it can be replaced meanwhile, so nothing of it can be outdated.
    CHECK(checker.put_all(kPages, Status::unreachable) == on_a);
    REQUIRE(world.a->start());
    CHECK(eventually([&] { return checker.count(kPages, Status::ok) == kPages; }));
    CHECK(world.a->counter("store.0.objects") == static_cast<std::uint64_t>(on_a));
  }
}

// A storage daemon whose recovery goes on only when this is let go.
struct HeldRecovery {
  explicit HeldRecovery(DaemonProcess& daemon) {
    daemon.set_environment("LD_PRELOAD", program("libheld_recovery.so"));
    daemon.set_environment("SIMM_RECOVERY_GATE", gate);
    // The preloaded library comes before the sanitizer's own, and replaces nothing of it.
    const char* options = std::getenv("ASAN_OPTIONS");
    daemon.set_environment("ASAN_OPTIONS", std::string(options == nullptr ? "" : options) +
                                               ":verify_asan_link_order=0");
  }
  void let_go() const { std::ofstream(gate) << "on"; }

  simm::test_support::TemporaryDirectory directory;
  std::string gate = directory / "gate";
};

std::string state_of(const DaemonProcess& manager, const std::string& name) {
  const auto report = manager.report("nodes");
  for (const auto& node : report["nodes"]) {
    if (node["name"] == name) return node["state"];
  }
  return "unknown";
}

TEST_CASE("a pool that takes longer than the grace to recover keeps its slots and its objects") {
  constexpr int kGraceMs = 3000;
  WarmWorld world(kGraceMs);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(world.a->counter("server.0.put_pages"));
  REQUIRE(on_a > 0);
  const HeldRecovery recovery(*world.a);
  world.a->signal(SIGKILL);
  CHECK(world.a->wait(30'000) == 1000 + SIGKILL);
  world.a->launch();
  REQUIRE(eventually([&] { return state_of(world.cluster.manager, "a") == "recovering"; }));
  REQUIRE(eventually([&] { return sees_members(*world.node, 2); }));

  // It is asked, and serves nothing before it knows what it has.
  CHECK(checker.count(kPages, Status::not_found) == on_a);
  CHECK(checker.put_all(kPages, Status::unreachable) == on_a);
  CHECK(eventually([&] { return world.a->counter("server.0.recovering_pages") > 0; }));
  CHECK(world.a->report("status")["pool"]["recovery_percent"] < 100);

  const auto uptime_ms = [&] {
    return world.cluster.manager.report("status")["uptime_ms"].get<int>();
  };
  const int held_since_ms = uptime_ms();
  REQUIRE(eventually([&] { return uptime_ms() - held_since_ms > 2 * kGraceMs; }));
  CHECK(state_of(world.cluster.manager, "a") == "recovering");
  CHECK(sees_members(*world.node, 2));

  recovery.let_go();
  REQUIRE(world.a->await_ready());
  CHECK(eventually([&] { return checker.count(kPages, Status::ok) == kPages; }));
  CHECK(eventually([&] { return state_of(world.cluster.manager, "a") == "live"; }));
  CHECK(world.a->counter("store.0.recovered") == static_cast<std::uint64_t>(on_a));
  CHECK(world.a->counter("store.0.disowned") == 0);
}

TEST_CASE("a storage daemon that comes back after its slots have moved has nothing of them") {
  WarmWorld world(300, false);  // what b has does not follow the slots
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const auto on_a = world.a->counter("server.0.put_pages");
  REQUIRE(on_a > 0);
  world.a->signal(SIGKILL);
  CHECK(world.a->wait() == 1000 + SIGKILL);
  // All slots are b's now, and every page is written anew there, or gone.
  REQUIRE(eventually([&] { return sees_members(*world.node, 1); }));
  REQUIRE(eventually([&] { return checker.put_all(kPages, Status::ok) == kPages; }));
  const auto moved_back = world.a->start();
  REQUIRE(moved_back);
  REQUIRE(eventually([&] { return world.settled(2); }));
  // What a had put before is nobody's to see, though its slots are a's again.
  CHECK(eventually([&] { return world.a->counter("store.0.disowned") >= on_a; }));
  const int hits = checker.count(kPages, Status::ok);
  CHECK(hits < kPages);
  CHECK(checker.count(kPages, Status::not_found) == kPages - hits);
}

TEST_CASE("a daemon that comes back with another pool is another one, and its slots are empty") {
  WarmWorld world;
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(world.a->counter("server.0.put_pages"));
  world.a->signal(SIGKILL);
  CHECK(world.a->wait() == 1000 + SIGKILL);
  std::filesystem::remove_all(world.pools.directory / "a");
  REQUIRE(world.a->start());
  REQUIRE(eventually([&] { return world.settled(2); }));
  CHECK(checker.count(kPages, Status::ok) == kPages - on_a);
  CHECK(checker.put_all(kPages, Status::ok) == kPages);
}

TEST_CASE("a pool of another life of the cluster is not used, though the epochs fit") {
  ClusterProcesses cluster;
  const PoolPath pools;
  const auto a = cluster.storage("a", pools.keys("a"));
  const auto node = cluster.node("n");
  const auto is_settled = [&] {
    return uses_the_map_of(*a, cluster.manager) && uses_the_map_of(*node, cluster.manager) &&
           sees_members(*node, 1);
  };
  for (DaemonProcess* daemon : {&cluster.manager, a.get(), node.get()}) REQUIRE(daemon->start());
  REQUIRE(eventually(is_settled));
  {
    Checker checker(*node);
    REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  }
  const auto former = cluster.manager.report("nodes");
  CHECK(former["epoch"] == 1);
  for (DaemonProcess* daemon : {a.get(), node.get(), &cluster.manager}) {
    daemon->signal(SIGKILL);
    CHECK(daemon->wait() == 1000 + SIGKILL);
  }
  // Nobody is left who has a map, and the manager's state is lost: the first map is of epoch 1
  // again, and a has been in it since then.
  REQUIRE(std::filesystem::remove(cluster.manager.directory() + "/manager.state"));
  REQUIRE(cluster.manager.start());
  if (a->start()) CHECK(a->wait(30'000) == EXIT_FAILURE);
  const bool says_why = a->log().find("of lineage") != std::string::npos;
  CHECK(says_why);
  // Its supervisor starts it again.
  REQUIRE(a->start());
  REQUIRE(node->start());
  REQUIRE(eventually(is_settled));
  CHECK(cluster.manager.report("nodes")["lineage"] != former["lineage"]);
  Checker checker(*node);
  CHECK(checker.count(kPages, Status::not_found) == kPages);
}

}  // namespace warm_cluster_test
