// store.restart: a store that is full comes back over the memory that it left, and serves its first
// object, compared with its digest. store.meta_bytes: what its records and keys take in memory.
// store.recovery_ops: how many objects a second come back in a store of many small ones.
// store.recovery_cpu: the CPU time of all threads for each, which other work on the machine spares.
// Thread: the main thread.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct RestartOptions {
  std::uint64_t arena_bytes = std::uint64_t{8} << 30;
  std::uint32_t small_objects = 4'000'000;
  std::uint32_t rounds = 3;
};

Outcome measure_restart(const RestartOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
