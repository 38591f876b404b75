// The rows of `simm-bench kv` that are about the daemon itself:
//   node.attach         ms until a second client has attached and registered 8 GiB
//   daemon.idle_cpu     percent of a core that an idle daemon uses, from one second after the last
//                       request on, with a session attached
//   engine.allocations  heap allocations of all daemon threads but the control threads in 10^5
//                       batches, after a warm-up, of a daemon with its own pool and of the node and
//                       the storage daemon of a cluster, with the probe library preloaded
// None has a baseline.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_node_benchmark(const BenchOptions& options, ResultPrinter& printer);

// Only with daemons of our own: a running one can not be preloaded.
Outcome run_allocation_benchmark(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
