// simm-bench: measures SiMM and replays traces against it. One subcommand per kind of measurement.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "libclient/tools/simm-bench/trace_stats_command.h"

namespace {

int report(const simm::Outcome& outcome) {
  if (outcome) return 0;
  std::fprintf(stderr, "simm-bench: %s\n", outcome.error().context.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures SiMM and replays traces against it."};
  app.require_subcommand(1);

  simm::bench::TraceStatsOptions stats;
  CLI::App* trace_stats =
      app.add_subcommand("trace-stats", "Statistics of conversation traces, side by side");
  trace_stats->add_option("--trace", stats.trace_path,
                          "a trace to describe beside the generated one");
  trace_stats->add_option("--seed", stats.seed, "of the generated trace")->capture_default_str();
  trace_stats->add_option("--requests", stats.requests, "of the generated trace")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{10'000'000}))
      ->capture_default_str();
  trace_stats->add_option("--write", stats.write_path, "write the generated trace to this file");

  CLI11_PARSE(app, argc, argv);
  if (trace_stats->parsed()) return report(run_trace_stats(stats));
  return 0;
}
