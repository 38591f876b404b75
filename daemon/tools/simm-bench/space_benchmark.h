// store.efficiency: payload bytes over all memory of a store that is full, for the sizes of known
// deployments, their mixture, and sizes of every kind; and what it costs. Thread: the main thread.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct SpaceOptions {
  std::uint64_t arena_bytes = std::uint64_t{8} << 30;
  std::uint64_t seed = 1;
  double rounds = 4;  // arenas' worth of puts
};

Outcome measure_space(const SpaceOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
