// `simm-bench network`: pages of a storage daemon over an emulated network (emulated_network.h),
// for lines of several delays, rates and losses; baseline: the same bytes over two connections of
// raw TCP, in the same rounds. Default options of clients and daemons. A page that did not arrive
// is counted (`failed_pages`), a wrong byte is an error. Needs root. Thread: the main thread of a
// process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

Outcome run_network_benchmark(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
