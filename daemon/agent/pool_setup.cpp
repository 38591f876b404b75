#include "daemon/agent/pool_setup.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "daemon/agent/pool_cost.h"
#include "daemon/agent/pool_numa.h"
#include "daemon/base/host_memory.h"
#include "daemon/store/store.h"

namespace simm {
namespace {

// A shard smaller than this holds no useful number of objects.
constexpr std::uint64_t kShardBytesMin = 16ull << 20;
constexpr std::uint64_t kPage = 4096;
// Making pages present zeroes them, which fewer threads do no faster than one takes them unzeroed.
constexpr std::uint32_t kTakeThreadsMin = 8;
constexpr std::uint32_t kTakeThreadsMax = 32;

std::uint32_t take_threads() noexcept {
  const std::uint32_t cpus = std::thread::hardware_concurrency();
  return cpus < kTakeThreadsMin ? 1 : std::min(cpus, kTakeThreadsMax);
}

store::PoolKind kind_of(const PoolSetup& setup) {
  if (!setup.config.node.pool_path.empty()) return store::PoolKind::named;
  const bool is_kept =
      setup.files_are_kept && setup.config.node.pool_restart != base::RestartMode::fresh;
  return is_kept ? store::PoolKind::handed : store::PoolKind::private_;
}

store::PoolRestart restart_of(base::RestartMode mode) {
  if (mode == base::RestartMode::fresh) return store::PoolRestart::fresh;
  if (mode == base::RestartMode::require) return store::PoolRestart::require;
  return store::PoolRestart::keep;
}

store::PoolConfig pool_config(const PoolSetup& setup, std::uint64_t bytes, const PoolNuma& numa) {
  const base::Config& config = setup.config;
  store::PoolConfig result;
  result.kind = kind_of(setup);
  result.restart = restart_of(config.node.pool_restart);
  result.path = config.node.pool_path;
  result.shards = config.threading.data_agents;
  result.payload_bytes = shard_bytes_of(bytes, result.shards);
  store::StoreConfig sized;
  sized.objects_max = config.store.objects_max / result.shards;
  result.table_bytes = store::Store::table_bytes_for(sized, result.payload_bytes);
  result.table_bytes = (result.table_bytes + kPage - 1) / kPage * kPage;
  result.hugepages = config.node.hugepages != base::HugepageMode::off;
  result.hugepages_only = config.node.hugepages == base::HugepageMode::require;
  result.numa_node = numa.bound;
  result.shard_nodes = numa.preferred;
  result.owner = setup.owner;
  result.hash_seed = setup.hash_seed;
  result.fresh_hash_seed = setup.fresh_hash_seed;
  result.take_threads = take_threads();
  result.on_taken = setup.on_taken;
  return result;
}

}  // namespace

std::uint64_t shard_bytes_of(std::uint64_t pool_bytes, std::uint32_t shards) noexcept {
  return pool_bytes / shards / store::kHugePageBytes * store::kHugePageBytes;
}

std::vector<store::PoolFile> take_pool_files(std::vector<control::InheritedSocket>& inherited) {
  std::vector<store::PoolFile> files;
  for (auto at = inherited.begin(); at != inherited.end();) {
    if (at->name.rfind(store::kPoolFilePrefix, 0) != 0) {
      ++at;
      continue;
    }
    files.push_back({at->name, std::move(at->fd)});
    at = inherited.erase(at);
  }
  return files;
}

Expected<std::unique_ptr<store::PoolMemory>> make_pool(const PoolSetup& setup,
                                                       std::vector<store::PoolFile> handed) {
  const base::Config& config = setup.config;
  const auto host = base::HostMemory::read();
  const std::uint64_t bytes = config.node.pool_bytes.of(host.usable_bytes());
  if (setup.clustered && setup.has_clients && bytes == 0) {
    return std::unique_ptr<store::PoolMemory>();
  }
  const std::string key = "node.pool_bytes = " + base::format_bytes(bytes) + ": ";
  const std::uint64_t least = kShardBytesMin * config.threading.data_agents;
  if (bytes < least) {
    return Error{Status::invalid_argument,
                 key + "write at least " + base::format_bytes(least) + " (" +
                     base::format_bytes(kShardBytesMin) +
                     " for each data agent); only a node of a cluster (cluster.manager) can do "
                     "without, with 0"};
  }
  // Huge pages come out of a pool that is set aside already; others would end the daemon one day.
  const bool is_node = setup.clustered && setup.has_clients;
  const std::uint64_t cache_bytes = is_node ? config.node.cache_bytes : 0;
  const auto numa = PoolNuma::of(config, bytes, cache_bytes, base::NumaTopology::read());
  if (!numa) return Error{numa.status(), key + numa.error().context};
  store::PoolConfig wanted = pool_config(setup, bytes, *numa);
  const PoolCost cost = PoolCost::of(config, bytes, cache_bytes);
  const std::uint64_t fitting = PoolCost::largest_pool(config, host.usable_bytes(), cache_bytes);
  const std::string too_many = key + host.origin() + ", and the pool needs " + cost.text() +
                               "; write \"" + std::to_string(fitting >> 20) + "MiB\" or less";
  const bool fits = bytes <= fitting;
  if (!fits && wanted.kind == store::PoolKind::named) {
    wanted.hugepages_only = true;
  } else if (!fits && !wanted.hugepages) {
    return Error{Status::invalid_argument, too_many};
  }
  auto pool = store::PoolMemory::create(wanted, std::move(handed));
  if (!pool) {
    const std::string named =
        wanted.kind == store::PoolKind::named ? "node.pool_path: " : std::string();
    return Error{pool.status(), key + named + pool.error().context};
  }
  const store::Arena& payload = (*pool)->payload();
  if (payload.uses_hugepages()) return pool;
  if (config.node.hugepages == base::HugepageMode::require) {
    const std::string pages =
        std::to_string((bytes + store::kHugePageBytes - 1) / store::kHugePageBytes);
    return Error{Status::out_of_memory, "node.hugepages = require: " + payload.note() +
                                            "; reserve them (sysctl vm.nr_hugepages=" + pages +
                                            " or more), or write \"try\""};
  }
  if (!fits) return Error{Status::invalid_argument, too_many};
  return pool;
}

}  // namespace simm
