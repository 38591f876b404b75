#include "daemon/agent/pool_cost.h"

#include "daemon/base/byte_size.h"
#include "daemon/store/store.h"

namespace simm {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPageEntryBytes = 8;
// Measured: the resident memory of a storage daemon grows by this for each agent.
constexpr std::uint64_t kAgentBytes = 25 << 20;

std::uint64_t objects_expected(const base::Config& config, std::uint64_t pool_bytes) noexcept {
  const std::uint64_t fitting = pool_bytes / PoolCost::kObjectBytesExpected;
  return config.store.objects_max != 0 ? config.store.objects_max : fitting;
}

}  // namespace

PoolCost PoolCost::of(const base::Config& config, std::uint64_t pool_bytes,
                      std::uint64_t cache_bytes) noexcept {
  PoolCost cost;
  cost.page_table_bytes = pool_bytes / kPageBytes * kPageEntryBytes;
  cost.object_table_bytes = objects_expected(config, pool_bytes) * store::Store::kBytesPerObject;
  cost.agent_bytes = config.threading.data_agents * kAgentBytes;
  cost.cache_bytes = cache_bytes;
  return cost;
}

std::uint64_t PoolCost::largest_pool(const base::Config& config, std::uint64_t usable_bytes,
                                     std::uint64_t cache_bytes) noexcept {
  std::uint64_t fits = 0;
  std::uint64_t too_long = usable_bytes + 1;
  while (too_long - fits > 1) {
    const std::uint64_t middle = fits + (too_long - fits) / 2;
    const bool is_room = middle + of(config, middle, cache_bytes).total() <= usable_bytes;
    (is_room ? fits : too_long) = middle;
  }
  return fits;
}

std::string PoolCost::text() const {
  return base::format_bytes(total()) + " besides (page tables " +
         base::format_bytes(page_table_bytes) + ", tables of objects " +
         base::format_bytes(object_table_bytes) + ", agents " + base::format_bytes(agent_bytes) +
         ", cache " + base::format_bytes(cache_bytes) + ")";
}

}  // namespace simm
