// `simm-bench ipc`: the rings alone.
//   ipc.noop_p50           no-op submission to completion, both sides spinning; baseline: bare
//   rings ipc.noop_sleeping_p50  the same when both sides had gone to sleep; no baseline
//   ipc.descriptors        validated page descriptors per second; baseline: unvalidated
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "libclient/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_ipc_benchmark(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
