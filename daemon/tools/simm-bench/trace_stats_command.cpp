#include "daemon/tools/simm-bench/trace_stats_command.h"

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "daemon/tools/simm-bench/trace_generator.h"
#include "daemon/tools/simm-bench/trace_statistics.h"

namespace simm::bench {

Outcome run_trace_stats(const TraceStatsOptions& options) {
  std::vector<NamedStatistics> columns;
  if (!options.trace_path.empty()) {
    const Expected<Trace> trace = read_trace(options.trace_path);
    if (!trace) return trace.error();
    columns.push_back({options.trace_path, statistics_of(*trace)});
  }
  const Trace generated = generate_trace({options.seed, options.requests});
  columns.push_back({"generated, seed " + std::to_string(options.seed), statistics_of(generated)});
  std::fputs(statistics_table(columns).c_str(), stdout);
  if (!options.write_path.empty()) {
    std::ofstream file(options.write_path);
    write_trace(file, generated);
    if (!file.flush()) {
      Error error = system_error(options.write_path, errno);
      error.context += ": name a writable file with --write";
      return error;
    }
  }
  return Done{};
}

}  // namespace simm::bench
