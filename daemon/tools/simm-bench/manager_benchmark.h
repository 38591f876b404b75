// simm-bench manager: a manager of its own with many members over loopback: how long until a map is
// everywhere when daemons join and leave, how long until all are back after its restart, and what
// it costs at rest. Members and manager share the machine. Thread: the main thread.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct ManagerBenchOptions {
  std::uint32_t members = 1000;
  bool quick = false;
  bool json = false;
};

Outcome run_manager_benchmark(const ManagerBenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
