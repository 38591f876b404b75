// PoolNuma: on which NUMA nodes the shards of a pool lie. With `node.numa` all of them are bound to
// that node, which has to have so much memory; without, each prefers the node of its agent's CPU
// (threading.cpus), and goes on elsewhere when that one is full. Decided at start, before the pool
// has a page. Thread: start-up; a value.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/base/numa_topology.h"
#include "simm/expected.h"

namespace simm {

struct PoolNuma {
  int bound = -1;              // the node of all shards; -1: none
  std::vector<int> preferred;  // of each shard; -1 there: none. Empty: of none

  // The error says which size fits. `cache_bytes` as in PoolCost.
  static Expected<PoolNuma> of(const base::Config& config, std::uint64_t pool_bytes,
                               std::uint64_t cache_bytes, const base::NumaTopology& topology);
};

}  // namespace simm
