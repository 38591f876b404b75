// simm-bench store: what the store makes of its memory. store.hit_rate: its eviction policies on a
// trace, for six cache sizes, beside the optimal policy. The other cases: index_benchmark.h,
// restart_benchmark.h, space_benchmark.h, changeover_benchmark.h, objects_benchmark.h.
// Thread: the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/bench_options.h"
#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct StoreOptions {
  std::string trace_path;  // empty: a generated trace
  std::uint64_t seed = 1;
  std::string only = kAllCases;        // or one of store_cases()
  std::uint32_t objects = 10'000'000;  // of the case `objects`
  bool quick = false;                  // little of everything
  bool json = false;
};

// The names of the cases, in the order in which they run.
std::vector<std::string> store_cases();
Outcome run_store_benchmark(const StoreOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
