// The latency rows of `simm-bench kv`: kv.exists_128 and kv.get_4k_p50; and the measurement behind
// the latter, which other paths to a page use as well.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/tools/simm-bench/bench_options.h"
#include "simm/client.h"

namespace simm::bench {

Outcome run_kv_latency(const BenchOptions& options, ResultPrinter& printer);

inline constexpr std::uint64_t kSmallPageBytes = 4'096;

// Gets of one page of kSmallPageBytes each, at random out of a working set.
struct SmallGets {
  WaitMode wait = WaitMode::spin;
  std::uint64_t set_bytes = 64ull << 20;
  std::size_t calls = 0;  // of each worker, after a tenth that warms up
};
struct SmallGetTimes {
  double p50_us = 0;         // of the gets of all workers
  double daemon_cpu_us = 0;  // CPU time of the daemon for each get
};
Expected<SmallGetTimes> measure_small_gets(const BenchOptions& options,
                                           const MeasuredProcess& daemon, const SmallGets& gets);

}  // namespace simm::bench
