// `simm-bench fanout`: node.fanout, the network bytes that a node receives when all ranks of an MLA
// model get the same 128 pages of a remote shard, starting within 50 ms of each other; baseline:
// the bytes of these pages, once. The bytes are what the node's own counters tcp.*.received_bytes
// say, headers and all.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include <string>

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

struct FanoutOptions {
  BenchOptions bench;      // processes: how many ranks
  std::string admin_path;  // of the node that --daemon names; empty: admin.sock beside its socket
};

Outcome run_fanout_benchmark(const FanoutOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
