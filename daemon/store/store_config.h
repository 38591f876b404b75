// StoreConfig: the limits of one store. Filled from the daemon's configuration at start.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/ids.h"

namespace simm::store {

struct TenantQuota {
  base::TenantId tenant;
  std::uint64_t bytes = 0;  // 0: no limit below the arena
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
  std::vector<TenantQuota> quotas;  // tenants not named here have none of their own
  base::TimeNs lease_default_ns = 15 * base::kNsPerSecond;
  base::TimeNs lease_max_ns = 60 * base::kNsPerSecond;
  std::uint32_t lease_budget_percent = 50;  // of the arena, and of each tenant's quota
  // Background eviction starts when less than low is free and stops at high (of 1,000 parts).
  std::uint32_t free_low_permille = 10;
  std::uint32_t free_high_permille = 20;
};

}  // namespace simm::store
