// The row kv.get_4k_crowd_p50 of `simm-bench kv`: what a get costs beside many sessions that do
// nothing. Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_kv_crowd(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
