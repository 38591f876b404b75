#include "daemon/tools/simm-bench/bench_options.h"

#include <algorithm>

#include "daemon/tools/simm-bench/subprocess.h"

namespace simm::bench {

Expected<MeasuredDaemon> MeasuredDaemon::open(const BenchOptions& options,
                                              const DaemonOptions& daemon_options) {
  MeasuredDaemon daemon;
  if (!options.socket_path.empty()) {
    const Expected<pid_t> pid = daemon_pid(options.socket_path);
    if (!pid) return pid.error();
    daemon.socket_path_ = options.socket_path;
    daemon.pid_ = *pid;
    return daemon;
  }
  Expected<DaemonProcess> own = DaemonProcess::start(daemon_options);
  if (!own) return own.error();
  daemon.socket_path_ = own->socket_path();
  daemon.pid_ = own->pid();
  daemon.own_.emplace(std::move(*own));
  return daemon;
}

Expected<Baseline> run_baseline(const std::vector<std::string>& arguments, const char* field) {
  std::vector<std::string> command = arguments;
  command.front() = program_path(command.front());
  const Expected<nlohmann::json> printed = run_json(command);
  if (!printed) return printed.error();
  const auto value = printed->find(field);
  if (value == printed->end() || !value->is_number()) {
    return Error{Status::io_error, command.front() + ": field '" + field +
                                       "' is missing: rebuild, so that it fits simm-bench"};
  }
  return Baseline{value->get<double>(), printed->value("noisy", false)};
}

void Rounds::add_baseline(const Baseline& baseline) {
  if (baseline.value > 0) baselines.push_back(baseline.value);
  noisy = noisy || baseline.noisy;
}

void Rounds::judge_spread(double spread_max) {
  if (baselines.empty()) return;
  const auto [smallest, largest] = std::minmax_element(baselines.begin(), baselines.end());
  noisy = noisy || *largest > *smallest * spread_max;
}

Result Rounds::result(std::string name, std::string unit, nlohmann::json params) const {
  Result result;
  result.name = std::move(name);
  result.value = median_of(values);
  result.unit = std::move(unit);
  if (!baselines.empty()) result.baseline = median_of(baselines);
  result.params = std::move(params);
  result.params["rounds"] = values.size();
  result.noisy = noisy;
  return result;
}

}  // namespace simm::bench
