// `simm-bench trace-stats`: the statistics of a generated trace and, with --trace, of a real one
// beside it.
#pragma once

#include <string>

#include "simm/expected.h"

namespace simm::bench {

struct TraceStatsOptions {
  std::string trace_path;  // empty: only the generated one
  std::string write_path;  // not empty: the generated trace is written there
  std::uint64_t seed = 1;
  std::uint64_t requests = 12'031;
};

Outcome run_trace_stats(const TraceStatsOptions& options);

}  // namespace simm::bench
