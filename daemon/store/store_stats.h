// StoreStats: what happened in one store since it was made (counters) and what it holds now
// (gauges, in the second half). Plain numbers of the store's agent; the daemon publishes copies of
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/store/eviction/store_spectrum.h"
#include "daemon/store/pool/recovery_loss.h"

namespace simm::store {

// Why an object was lost inside its lease. Without a cause there is no such loss.
enum class LeaseLoss : std::uint8_t {
  removed = 0,
  replaced = 1,      // space ran out for its replacement, so the old one went first
  lease_budget = 2,  // leases hold more than the budget allows: the oldest gave way
  corrupt = 3,       // its bytes no longer matched their checksum
  slot_lost = 4,     // a new map gave its slot to another server
};
inline constexpr std::size_t kLeaseLossCount = 5;
inline constexpr std::array<const char*, kLeaseLossCount> kLeaseLossNames = {
    "removed", "replaced", "lease_budget", "corrupt", "slot_lost"};

struct StoreStats {
  std::uint64_t reads = 0;  // begin_read() that found the object
  std::uint64_t read_misses = 0;
  std::uint64_t exists_hits = 0;
  std::uint64_t exists_misses = 0;
  std::uint64_t published = 0;        // objects that became visible, replacements included
  std::uint64_t replacements = 0;     // of those: took the place of an older one
  std::uint64_t already_present = 0;  // if_absent found the object, at the start or at publish
  std::uint64_t abandoned = 0;        // reservations given up
  std::uint64_t removed = 0;
  std::uint64_t expired = 0;            // TTL
  std::uint64_t evicted = 0;            // objects
  std::uint64_t evicted_bytes = 0;      // extent bytes
  std::uint64_t evicted_for_quota = 0;  // objects, of those evicted: for their own tenant's quota
  std::uint64_t evicted_inline = 0;     // objects, of those evicted: inside a put, not between puts
  std::uint64_t moved = 0;              // objects, to make one hole of several
  std::uint64_t moved_bytes = 0;        // extent bytes
  std::uint64_t disowned = 0;           // objects whose slot was lost
  std::uint64_t quarantined = 0;
  std::uint64_t damaged_records = 0;  // of those quarantined: the record itself did not match
  std::uint64_t space_waits = 0;      // begin_write() that has to be asked again
  std::uint64_t refused_no_space = 0;
  std::uint64_t pins_refused = 0;     // the budget for pins was used up
  std::uint64_t pins_outgrown = 0;    // pins that ended because their group grew beyond the budget
  std::uint64_t refused_tenants = 0;  // more tenants than tenants_max
  std::uint64_t recovered = 0;        // objects of an earlier life of the process
  std::uint64_t refused_tables = 0;  // kept metadata tables of another shape, or damaged as a whole
  std::array<std::uint64_t, kRecoveryLossCount> lost_at_recovery{};  // entries, by RecoveryLoss
  std::array<std::uint64_t, kLeaseLossCount> lost_in_lease{};        // objects, by LeaseLoss

  std::uint64_t objects = 0;        // live
  std::uint64_t payload_bytes = 0;  // of live objects
  std::uint64_t reserved = 0;       // being written
  std::uint64_t lingering = 0;      // gone, but still being read
  std::uint64_t unverified = 0;     // live, recovered, and not compared with their digest yet
  std::uint64_t groups = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t extent_bytes = 0;  // in use, for live, reserved and lingering objects
  std::uint64_t free_bytes = 0;
  std::uint64_t leased_bytes = 0;  // extent bytes of groups with a lease
  std::uint64_t pinned_bytes = 0;  // of groups that somebody pinned, leased or not
  std::uint64_t pinned_groups = 0;
  std::uint64_t holes = 0;               // parts of the arena that are free
  std::uint64_t largest_hole_bytes = 0;  // see ExtentAllocator
  // Of the extents in use, what could be elsewhere: of live objects that nobody reads or writes
  // now.
  std::uint64_t movable_bytes = 0;
  StoreSpectrum spectrum;  // counters and gauges
};

}  // namespace simm::store
