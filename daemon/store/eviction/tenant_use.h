// What a store tells about its tenants: TenantUse, one of them; TenantTable, all of them at one
// moment; TenantTables, how the newest of these reach the control thread. A tenant is there once it
// has a quota or weight of its own, or since it first asked for anything. Plain numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/base/triple_buffer.h"

namespace simm::store {

// What happened to a tenant's objects and look-ups, and what there is of it. A cache line.
struct alignas(64) TenantTally {
  std::uint64_t objects = 0;        // live
  std::uint64_t payload_bytes = 0;  // of those
  // Counters, from the tenant's first use of the store on. When more tenants come than a store has
  // accounts for, one that holds nothing gives up its account. It begins at 0 if it comes back.
  std::uint64_t evicted = 0;
  std::uint64_t evicted_bytes = 0;  // extent bytes
  std::uint64_t reads = 0;
  std::uint64_t read_misses = 0;
  std::uint64_t exists_hits = 0;
  std::uint64_t exists_misses = 0;
};

struct TenantUse {
  base::TenantId tenant;
  std::uint64_t weight = 1;
  std::uint64_t quota_bytes = 0;  // the whole arena: it has none
  std::uint64_t fair_bytes = 0;  // its share of the arena, while all that hold anything want theirs
  std::uint64_t extent_bytes = 0;  // live, reserved and lingering objects
  std::uint64_t leased_bytes = 0;  // of these: of groups with a lease
  std::uint64_t pinned_bytes = 0;  // of these: of pinned groups
  TenantTally tally;
};

struct TenantTable {
  std::vector<TenantUse> rows;  // fixed size: room for as many as the store may have
  std::uint32_t count = 0;      // rows in use
};

using TenantTables = base::TripleBuffer<TenantTable>;

}  // namespace simm::store
