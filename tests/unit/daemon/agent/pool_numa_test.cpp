// Where the shards of a pool lie on machines with several NUMA nodes, and what is refused.
#include "daemon/agent/pool_numa.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace pool_numa_test {

using simm::PoolNuma;
using simm::Status;
using simm::base::Config;
using simm::base::NumaTopology;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Two sockets of four CPUs and 1 TiB each.
NumaTopology two_nodes() {
  const simm::test_support::TemporaryDirectory root;
  for (int node = 0; node < 2; ++node) {
    const std::string folder = root.path() + "/sys/devices/system/node/node" + std::to_string(node);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/cpulist") << (node == 0 ? "0-1,4-5\n" : "2-3,6-7\n");
    std::ofstream(folder + "/meminfo")
        << "Node " << node << " MemTotal:       " << (1024 * kGiB / 1024) << " kB\n";
  }
  return NumaTopology::read(root.path());
}

Config config_of(std::uint32_t agents, std::vector<std::int64_t> cpus) {
  Config config;
  config.threading.mode = simm::base::Threading::dedicated;
  config.threading.data_agents = agents;
  config.threading.cpus = std::move(cpus);
  return config;
}

PoolNuma placed(const Config& config, const NumaTopology& topology) {
  auto numa = PoolNuma::of(config, 1500 * kGiB, 0, topology);
  REQUIRE(numa.has_value());
  CHECK(numa->bound == -1);
  return *numa;
}

}  // namespace pool_numa_test

TEST_CASE("NUMA: each shard prefers the node of its agent's CPU") {
  using namespace pool_numa_test;
  const NumaTopology topology = two_nodes();
  CHECK(placed(config_of(4, {0, 2, 5, 7}), topology).preferred == std::vector{0, 1, 0, 1});
  // CPUs are taken in turn, and one that no node has is near none.
  CHECK(placed(config_of(3, {6, 99}), topology).preferred == std::vector{1, -1, 1});
  Config one_thread = config_of(2, {3, 0});
  one_thread.threading.mode = simm::base::Threading::shared;
  CHECK(placed(one_thread, topology).preferred == std::vector{1, 1});
}

TEST_CASE("NUMA: where the kernel chooses CPUs, or there is one node, shards prefer none") {
  using namespace pool_numa_test;
  CHECK(placed(config_of(2, {}), two_nodes()).preferred.empty());
  CHECK(placed(config_of(2, {0, 1}), NumaTopology()).preferred.empty());
}

TEST_CASE("NUMA: a pool that is bound to a node without so much memory is refused with a size") {
  using namespace pool_numa_test;
  const NumaTopology topology = two_nodes();
  Config config = config_of(4, {0, 1, 2, 3});
  config.node.numa = 1;
  const auto fits = PoolNuma::of(config, 900 * kGiB, 0, topology);
  REQUIRE(fits.has_value());
  CHECK(fits->bound == 1);
  CHECK(fits->preferred.empty());
  const auto refused = PoolNuma::of(config, 1200 * kGiB, 0, topology);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.status() == Status::invalid_argument);
  const std::string& why = refused.error().context;
  INFO(why);
  CHECK(why.find("NUMA node 1 (node.numa) has 1.0 TiB") != std::string::npos);
  // The size that it names fits.
  const std::size_t at = why.find("write \"");
  REQUIRE(at != std::string::npos);
  const std::uint64_t named = std::stoull(why.substr(at + 7)) << 20;
  CHECK(named > 900 * kGiB);
  CHECK(PoolNuma::of(config, named, 0, topology).has_value());
}
