// The bandwidth rows of `simm-bench kv`: batches of up to 128 pages.
//   kv.get_bw, kv.put_bw  a region that the daemon shares; baseline: one-thread memcpy of the pages
//   kv.get_bw_staged      private memory, copied once more by libclient
//   kv.get_bw_foreign     private memory, written by the daemon's helper
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_kv_bandwidth(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
