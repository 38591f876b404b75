// ServerConfig: the limits of one server. Filled from the daemon's configuration at start.
#pragma once

#include <cstdint>

#include "daemon/base/choices.h"
#include "daemon/base/clock.h"
#include "daemon/base/ids.h"
#include "daemon/base/limits.h"
#include "daemon/base/replica.h"
#include "daemon/base/tenant_weights.h"
#include "ipc/layout.h"

namespace simm::server {

struct ServerConfig {
  base::ReplicatedNamespaces replicated;  // namespaces that are kept twice
  std::uint32_t requests_max =
      256;  // gets and puts under way; at least all credits of its transports
  std::uint64_t value_bytes_max = ipc::kValueBytesMax;
  // In the names of pushed objects: of this shard alone; 0: they have no names.
  std::uint32_t origin = 0;
  base::VerifyMode verify = base::VerifyMode::sampled;
  std::uint32_t verify_one_in = 64;  // sampled: one page of so many
  // A ranged get does not move the whole payload, so the checksum costs a pass of its own: only up
  // to this length, since it is made in one turn.
  std::uint64_t verify_ranged_bytes_max = 4 * 1024 * 1024;

  std::uint64_t scrub_bytes_per_s = 0;  // 0: nothing is scrubbed

  // Objects of slots that have come here (slot_arrivals.h). 0: they are misses.
  base::TimeNs arrival_window_ns = 0;
  std::uint32_t arrival_keys_max = 64 * 1024;
  // What former owners say that they have of these slots (expected_objects.h). Of more objects than
  // these nothing is remembered: they are misses until they have come.
  std::uint32_t expected_objects_max = 256 * 1024;
  base::TimeNs told_wait_ns = 500 * base::kNsPerMs;       // reads wait until all of a slot is told
  base::TimeNs arrival_wait_ns = 1 * base::kNsPerSecond;  // the longest that a read waits
  base::TimeNs want_ns = 1 * base::kNsPerSecond;    // what does not come by then is not waited for
  base::TimeNs silent_ns = 2 * base::kNsPerSecond;  // so long its owner is then not asked

  // Moves under way, of one request, and of all (fair_queue.h). One move is always allowed.
  std::uint32_t request_moves_max = 32;
  std::uint64_t request_bytes_max = 8 * 1024 * 1024;
  std::uint32_t moves_max = 256;
  std::uint64_t bytes_max = 16 * 1024 * 1024;
  std::uint64_t small_bytes_max = 64 * 1024;  // requests of so few bytes pass larger ones

  // Sharing among tenants, and the requesters of each: deficit round robin by bytes.
  std::uint64_t quantum_bytes = 256 * 1024;             // of a tenant with the weight 1
  base::TenantWeights weights;                          // of tenants with another one
  std::uint64_t page_cost_bytes = 512;                  // what a page counts besides its bytes
  std::uint32_t tenants_max = base::kTenantsServedMax;  // more than these share one turn
  std::uint32_t pages_per_turn = 256;
};

}  // namespace simm::server
