// `simm-bench ipc`: the rings alone.
//   ipc.noop_p50           no-op submission to completion, both sides spinning;
//                          baseline: bare rings
//   ipc.noop_sleeping_p50  the same when both sides had gone to sleep; no baseline
//   ipc.descriptors        validated page descriptors per second; baseline: unvalidated
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include <chrono>
#include <cstdint>

#include "daemon/tools/simm-bench/bench_options.h"
#include "simm/client.h"

namespace simm::bench {

Outcome run_ipc_benchmark(const BenchOptions& options, ResultPrinter& printer);

struct PingCase {
  WaitMode wait = WaitMode::spin;
  std::uint32_t warm_up = 0;
  std::uint32_t pings = 0;
  std::chrono::milliseconds pause{0};  // between pings, for both sides to fall asleep
};
// Nanoseconds of the median no-op of all workers.
Expected<double> measure_ping(const BenchOptions& options, const std::string& socket_path,
                              const PingCase& ping_case);

}  // namespace simm::bench
