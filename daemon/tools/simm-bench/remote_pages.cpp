#include "daemon/tools/simm-bench/remote_pages.h"

#include <utility>

namespace simm::bench {
namespace {

constexpr int kRounds = 5;

// The same programs on the same machine differ by less, unless it has other things to do.
constexpr double kSpreadMax = 2;

// What a round of SiMM has shown.
struct RemoteRound {
  double value = 0;
  double daemon_cpu_us = 0;
};

// Prints the medians of the rounds, in which the baseline goes first. `measure`: one round.
template <typename Measure>
Outcome measure_rounds(const BenchOptions& options, const char* name, const char* unit,
                       WaitMode wait, nlohmann::json params, const BaselineRound& baseline,
                       Measure&& measure, ResultPrinter& printer) {
  Rounds rounds;
  std::vector<double> cpu_us;
  for (int round = 0; round < (options.quick ? 1 : kRounds); ++round) {
    const Expected<Baseline> bare = baseline();
    if (!bare) return bare.error();
    rounds.add_baseline(*bare);
    const Expected<RemoteRound> own = measure();
    if (!own) return Error{own.status(), std::string(name) + ": " + own.error().context};
    rounds.values.push_back(own->value);
    cpu_us.push_back(own->daemon_cpu_us);
  }
  rounds.judge_spread(kSpreadMax);
  params["wait"] = wait == WaitMode::event ? "event" : "adaptive";
  params["processes"] = options.processes;
  params["threads"] = options.threads;
  params["daemon_cpu_us"] = median_of(cpu_us);
  printer.print(rounds.result(name, unit, std::move(params)));
  return Done{};
}

}  // namespace

Outcome measure_remote_bandwidth(const BenchOptions& options, const MeasuredNode& node,
                                 const BandwidthCase& row, const BatchShape& shape,
                                 const BaselineRound& baseline, ResultPrinter& printer) {
  const auto measure = [&]() -> Expected<RemoteRound> {
    const Expected<Bandwidth> moved =
        measure_bandwidth(options, {node.socket_path(), node.pid()}, row, shape);
    if (!moved) return moved.error();
    return RemoteRound{moved->bytes_per_s, moved->daemon_cpu_us};
  };
  return measure_rounds(options, row.name, "B/s", WaitMode::adaptive,
                        {{"page_bytes", shape.page_bytes}, {"pages", shape.pages}}, baseline,
                        measure, printer);
}

Outcome measure_remote_gets(const BenchOptions& options, const MeasuredNode& node, const char* name,
                            const SmallGets& gets, const BaselineRound& baseline,
                            ResultPrinter& printer) {
  const auto measure = [&]() -> Expected<RemoteRound> {
    const Expected<SmallGetTimes> times =
        measure_small_gets(options, {node.socket_path(), node.pid()}, gets);
    if (!times) return times.error();
    return RemoteRound{times->p50_us, times->daemon_cpu_us};
  };
  return measure_rounds(options, name, "us", gets.wait,
                        {{"page_bytes", kSmallPageBytes}, {"working_set_bytes", gets.set_bytes}},
                        baseline, measure, printer);
}

}  // namespace simm::bench
