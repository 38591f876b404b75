// `simm-bench tcp`: pages of a storage daemon over loopback TCP, through a node daemon that holds
// none itself.
//   tcp.get_bw, tcp.put_bw   batches of 128 pages
//                            baseline: the same bytes over one bare connection
//   tcp.get_4k_p50           one page of 4 KiB, everybody sleeping whenever there is nothing to do
//                            baseline: a bare ping-pong of 4 KiB plus a sleeping no-op of the rings
//   tcp.get_4k_adaptive_p50  the same with the default waiting mode everywhere; same baseline
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

// With --daemon through that node, whatever its waiting mode.
Outcome run_tcp_bandwidth(const BenchOptions& options, ResultPrinter& printer);
Outcome run_tcp_latency(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
