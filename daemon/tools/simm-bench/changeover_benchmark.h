// store.changeover: a store full of one model's pages goes over to another's, several times in a
// row. How full it is after the change, beside a store that never held anything else; and all the
// way there: efficiency, memory that lies in holes too short, evictions. Thread: the main thread.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct ChangeoverOptions {
  std::uint64_t arena_bytes = std::uint64_t{8} << 30;
  std::uint64_t seed = 1;
  std::uint32_t rounds = 3;  // arenas' worth of puts of each model
};

Outcome measure_changeover(const ChangeoverOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
