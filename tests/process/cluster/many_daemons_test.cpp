// Daemons of the shipped size in great numbers: what one of them wants of links is wanted from all.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"

namespace many_daemons_test {

using namespace cluster_processes;
using simm::Status;

// 24, and 64 in the long form.
int daemons() {
  const char* const percent = std::getenv("SIMM_ROUNDS_PERCENT");
  return percent != nullptr && std::atoi(percent) > 100 ? 64 : 24;
}

std::uint64_t dials(const DaemonProcess& daemon) {
  return daemon.counter("cluster.dialer.connected") + daemon.counter("cluster.dialer.failed");
}

TEST_CASE("a node reaches every shard of many storage daemons, and dials none of them again") {
  constexpr int kPages = 500;
  const int count = daemons();
  const std::string threads = R"(, "threading": {"mode": "dedicated", "data_agents": 4})";
  ClusterProcesses cluster;
  cluster.detection_ms = 30'000;
  REQUIRE(cluster.manager.start());
  std::vector<std::unique_ptr<DaemonProcess>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(
        cluster.storage("s" + std::to_string(i), threads + R"(, "node": {"pool_bytes": "64MiB"})"));
  }
  all.push_back(cluster.node("n", "0", threads));
  for (const auto& daemon : all) daemon->launch();
  // So many processes begin slowly on a small machine.
  for (const auto& daemon : all) REQUIRE(daemon->await_ready(120'000));
  const DaemonProcess& node = *all.back();
  const auto is_settled = [&] {
    if (!sees_members(node, static_cast<std::size_t>(count))) return false;
    for (const auto& daemon : all) {
      if (!uses_the_map_of(*daemon, cluster.manager)) return false;
    }
    return true;
  };
  REQUIRE(eventually(is_settled, 120'000));
  const auto report = node.report("peers");
  for (const auto& peer : report["peers"]) {
    CHECK(peer["connections"] == 32);  // of 4 agents to 4 shards, two each
    CHECK(peer["refused"] == 0);
  }
  const std::uint64_t dialled = dials(node);
  Checker checker(node);
  CHECK(checker.put_all(kPages, Status::ok) == kPages);
  CHECK(checker.count(kPages, Status::ok) == kPages);
  CHECK(dials(node) == dialled);
  CHECK(node.counter("cluster.links.lost_refused") == 0);
  CHECK(node.counter("cluster.links.refused_by_peer") == 0);
  for (const auto& daemon : all) CHECK(daemon->counter("cluster.links.refused") == 0);
}

}  // namespace many_daemons_test
