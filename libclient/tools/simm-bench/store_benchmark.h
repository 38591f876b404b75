// simm-bench store: what the store makes of its memory. store.hit_rate: its eviction policies on a
// trace, for six cache sizes, beside the optimal policy. store.efficiency, store.index_bytes,
// store.index_ops, store.restart and store.meta_bytes: see space_benchmark.h, index_benchmark.h and
// restart_benchmark.h. Thread: the main thread.
#pragma once

#include <cstdint>
#include <string>

#include "libclient/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct StoreOptions {
  std::string trace_path;  // empty: a generated trace
  std::uint64_t seed = 1;
  bool quick = false;  // a short trace
  bool json = false;
};

Outcome run_store_benchmark(const StoreOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
