// The latency rows of `simm-bench kv`: kv.exists_128 and kv.get_4k_p50.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "libclient/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_kv_latency(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
