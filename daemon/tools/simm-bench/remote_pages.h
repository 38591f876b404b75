// Pages of a storage daemon through a node, whatever carries them: what tcp.* and rdma.* have in
// common. Rounds of the baseline and of SiMM take turns; a result is their medians, and has
//   daemon_cpu_us   CPU time of the node's process for each page, in microseconds
// among its parameters. Thread: the main thread of a process without other threads (it forks).
#pragma once

#include <functional>

#include "daemon/tools/simm-bench/bandwidth.h"
#include "daemon/tools/simm-bench/kv_latency.h"
#include "daemon/tools/simm-bench/measured_node.h"

namespace simm::bench {

// One round of the same work done bare.
using BaselineRound = std::function<Expected<Baseline>()>;

Outcome measure_remote_bandwidth(const BenchOptions& options, const MeasuredNode& node,
                                 const BandwidthCase& row, const BatchShape& shape,
                                 const BaselineRound& baseline, ResultPrinter& printer);

// Gets of 4 KiB under the name of the result.
Outcome measure_remote_gets(const BenchOptions& options, const MeasuredNode& node, const char* name,
                            const SmallGets& gets, const BaselineRound& baseline,
                            ResultPrinter& printer);

}  // namespace simm::bench
