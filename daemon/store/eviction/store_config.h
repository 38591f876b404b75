// StoreConfig: the limits of one store. Filled from the daemon's configuration at start.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/base/choices.h"
#include "daemon/base/clock.h"
#include "daemon/base/ids.h"

namespace simm::store {

using base::EvictionKind;

inline constexpr std::uint32_t kWeightMax = 100;

struct TenantQuota {
  base::TenantId tenant;
  std::uint64_t bytes = 0;   // 0: no limit below the arena
  std::uint32_t weight = 1;  // its fair share of a full arena, relative to others'
};

// A share of the arena as a quota in bytes.
constexpr std::uint64_t percent_of(std::uint64_t arena_bytes, std::uint32_t percent) {
  return arena_bytes / 100 * percent + arena_bytes % 100 * percent / 100;
}

struct StoreConfig {
  // Objects at once, those being written included. 0: one for each 4 KiB of arena. What is not used
  // costs address space only, but for 16 bytes of index an object.
  std::uint32_t objects_max = 0;
  std::uint32_t tenants_max = 64;
  std::vector<TenantQuota> quotas;  // tenants not named here have no quota, and weight 1
  base::TimeNs lease_default_ns = 15 * base::kNsPerSecond;
  base::TimeNs lease_max_ns = 60 * base::kNsPerSecond;
  std::uint32_t lease_budget_percent = 50;  // of each tenant's share of the arena
  std::uint32_t pin_budget_percent = 10;    // of each tenant's share, and of the arena for all
  EvictionKind eviction = EvictionKind::reuse;
  // How much one call may copy to make one hole of several. Bounds the work of a turn: larger moves
  // take several.
  std::uint64_t moved_bytes_per_call = std::uint64_t{8} << 20;
  // Background eviction starts when less than low is free and stops at high, in parts of 1,000.
  // That goes for the arena, for each quota below that, and for the records of objects.
  std::uint32_t free_low_permille = 20;
  std::uint32_t free_high_permille = 30;
  // However much that is, this is a stock large enough: it stops here, and starts at half of it.
  std::uint64_t free_bytes_max = std::uint64_t{64} << 20;
  std::uint64_t free_records_max = 8192;
};

// The room that is kept in stock for puts: evicted for in the background from below low up to high.
struct Stock {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// Of `all`, but no more than `most`.
constexpr Stock stock_of(const StoreConfig& config, std::uint64_t all, std::uint64_t most) {
  return {std::min(all * config.free_low_permille / 1000, most / 2),
          std::min(all * config.free_high_permille / 1000, most)};
}

}  // namespace simm::store
