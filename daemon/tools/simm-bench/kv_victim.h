// The row of `simm-bench kv` that is about isolation:
//   kv.victim_p99   µs, 99th percentile of one 4 KiB get while a client of another tenant submits
//                   no-ops and rings the daemon's bell without end. Baseline: the same without it,
//                   in the same run.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_kv_victim(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
