#include "libclient/tools/simm-bench/remote_pages.h"

namespace simm::bench {
namespace {

constexpr int kRounds = 5;

// The same programs on the same machine differ by less, unless it has other things to do.
constexpr double kSpreadMax = 2;

nlohmann::json with_workers(nlohmann::json params, const BenchOptions& options, WaitMode wait,
                            const std::vector<double>& cpu_us) {
  params["wait"] = wait == WaitMode::event ? "event" : "adaptive";
  params["processes"] = options.processes;
  params["threads"] = options.threads;
  params["daemon_cpu_us"] = median_of(cpu_us);
  return params;
}

}  // namespace

Outcome measure_remote_bandwidth(const BenchOptions& options, const MeasuredNode& node,
                                 const BandwidthCase& row, const BatchShape& shape,
                                 const BaselineRound& baseline, ResultPrinter& printer) {
  Rounds rounds;
  std::vector<double> cpu_us;
  for (int round = 0; round < (options.quick ? 1 : kRounds); ++round) {
    const Expected<Baseline> bare = baseline();
    if (!bare) return bare.error();
    rounds.add_baseline(*bare);
    const Expected<Bandwidth> moved =
        measure_bandwidth(options, {node.socket_path(), node.pid()}, row, shape);
    if (!moved) return Error{moved.status(), std::string(row.name) + ": " + moved.error().context};
    rounds.values.push_back(moved->bytes_per_s);
    cpu_us.push_back(moved->daemon_cpu_us);
  }
  rounds.judge_spread(kSpreadMax);
  const nlohmann::json params = {{"page_bytes", shape.page_bytes}, {"pages", shape.pages}};
  printer.print(
      rounds.result(row.name, "B/s", with_workers(params, options, WaitMode::adaptive, cpu_us)));
  return Done{};
}

Outcome measure_remote_gets(const BenchOptions& options, const MeasuredNode& node, const char* name,
                            const SmallGets& gets, const BaselineRound& baseline,
                            ResultPrinter& printer) {
  Rounds rounds;
  std::vector<double> cpu_us;
  for (int round = 0; round < (options.quick ? 1 : kRounds); ++round) {
    const Expected<Baseline> bare = baseline();
    if (!bare) return bare.error();
    rounds.add_baseline(*bare);
    const Expected<SmallGetTimes> times =
        measure_small_gets(options, {node.socket_path(), node.pid()}, gets);
    if (!times) return Error{times.status(), std::string(name) + ": " + times.error().context};
    rounds.values.push_back(times->p50_us);
    cpu_us.push_back(times->daemon_cpu_us);
  }
  rounds.judge_spread(kSpreadMax);
  const nlohmann::json params = {{"page_bytes", kSmallPageBytes},
                                 {"working_set_bytes", gets.set_bytes}};
  printer.print(rounds.result(name, "us", with_workers(params, options, gets.wait, cpu_us)));
  return Done{};
}

}  // namespace simm::bench
