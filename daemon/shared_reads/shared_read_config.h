// SharedReadConfig: the limits of one shared-read shard. Filled from the daemon's configuration at
// start.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"

namespace simm::shared_reads {

struct SharedReadConfig {
  // In the names of objects that are copied to readers: of this shard alone; 0: they have no names.
  std::uint32_t origin = 0;
  std::uint32_t requests_max = 256;       // served at once; at least all credits of the transport
  std::uint32_t shared_reads_max = 4096;  // objects that are fetched, or kept, or copied from
  std::uint32_t waiters_max = 64 * 1024;  // pages that wait for a shared read
  std::uint32_t tenants_max = base::kTenantsServedMax;  // more share what one of them may use
  // One fetch: so many pages, which come as soon as they are there, before the rest of a batch.
  std::uint32_t fetches_max = 64;
  std::uint32_t fetch_pages_max = 16;
  std::uint64_t fetch_bytes_max = 8 * 1024 * 1024;
  // How old what a shared read returns may be, when another node has written the key meanwhile.
  base::TimeNs linger_ns = 2 * base::kNsPerSecond;
  // A copy of an immutable namespace is kept beyond that while its owner confirms it
  // (CopyConfirmer), until nobody has used it for so long.
  base::TimeNs confirm_for_ns = 60 * base::kNsPerSecond;
  static constexpr std::uint32_t kConfirmsMax = 4;  // questions under way
  // Operations of the engine that are kept for the shard.
  [[nodiscard]] std::uint32_t operations() const noexcept { return fetches_max + kConfirmsMax; }
  std::uint32_t pages_per_turn = 512;  // that are looked at
  std::uint32_t serves_per_turn =
      256;  // pages whose copies are started when a shared read has landed
  std::uint32_t evictions_per_page_max = 64;
};

}  // namespace simm::shared_reads
