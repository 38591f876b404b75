// The row kv.get_4k_async_p50 of `simm-bench kv`: what an asynchronous get costs beside a
// synchronous one, also when threads share a Client.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_kv_async(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
