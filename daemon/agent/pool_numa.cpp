#include "daemon/agent/pool_numa.h"

#include <string>

#include "daemon/agent/pool_cost.h"
#include "daemon/base/byte_size.h"

namespace simm {

Expected<PoolNuma> PoolNuma::of(const base::Config& config, std::uint64_t pool_bytes,
                                std::uint64_t cache_bytes, const base::NumaTopology& topology) {
  PoolNuma numa;
  numa.bound = config.node.numa;
  const std::vector<std::int64_t>& cpus = config.threading.cpus;
  if (numa.bound >= 0) {
    const std::uint64_t node_bytes = topology.bytes_of(numa.bound);
    const std::uint64_t fitting = PoolCost::largest_pool(config, node_bytes, cache_bytes);
    // A node that nobody knows is refused by the kernel.
    if (node_bytes == 0 || pool_bytes <= fitting) return numa;
    return Error{Status::invalid_argument,
                 "NUMA node " + std::to_string(numa.bound) + " (node.numa) has " +
                     base::format_bytes(node_bytes) + ", and the pool needs " +
                     PoolCost::of(config, pool_bytes, cache_bytes).text() + "; write \"" +
                     std::to_string(fitting >> 20) +
                     "MiB\" or less, or leave node.numa out: shards then lie near the CPUs of "
                     "threading.cpus"};
  }
  if (topology.nodes() < 2 || cpus.empty()) return numa;
  const bool is_one_thread = config.threading.mode == base::Threading::shared;
  for (std::size_t shard = 0; shard < config.threading.data_agents; ++shard) {
    const std::size_t thread = is_one_thread ? 0 : shard;
    numa.preferred.push_back(topology.node_of(static_cast<int>(cpus[thread % cpus.size()])));
  }
  return numa;
}

}  // namespace simm
