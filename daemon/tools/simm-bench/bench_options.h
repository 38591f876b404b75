// What the measuring subcommands have in common: options, and the daemon that is measured.
// Thread: the main thread of a process without other threads (measurements fork).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/daemon_process.h"
#include "daemon/tools/simm-bench/result.h"

namespace simm::bench {

inline constexpr const char* kAllCases = "all";

struct BenchOptions {
  std::string socket_path;  // empty: each measurement starts and stops a daemon of its own
  unsigned threads = 1;     // of each client process
  unsigned processes = 1;
  std::string only = kAllCases;  // or one of the subcommand's cases
  bool quick = false;            // as little as shows that it works
  bool json = false;
  std::vector<std::string> near_devices;  // RDMA devices: of the node,
  std::vector<std::string> far_devices;   // ... of its storage daemon, reached by those in turn
};

// The daemon of one measurement: the one that --daemon names, or one of our own.
class MeasuredDaemon {
public:
  static Expected<MeasuredDaemon> open(const BenchOptions& options,
                                       const DaemonOptions& daemon_options);

  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  // Of another tenant when DaemonOptions asked for one and the daemon is ours.
  [[nodiscard]] const std::string& other_socket_path() const noexcept {
    return own_ ? own_->other_socket_path() : socket_path_;
  }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // Only a daemon of our own is pinned: figures from others say less.
  [[nodiscard]] bool is_own() const noexcept { return own_.has_value(); }

private:
  std::string socket_path_;
  pid_t pid_ = -1;
  std::optional<DaemonProcess> own_;
};

// The process that is measured, and where its clients meet it.
struct MeasuredProcess {
  std::string socket_path;
  pid_t pid = -1;
};

// A figure of a baseline program, and whether it was outside its sanity bounds.
struct Baseline {
  double value = 0;
  bool noisy = false;
};
Expected<Baseline> run_baseline(const std::vector<std::string>& arguments, const char* field);

// The medians of a figure and its baseline, measured in turn, in several rounds: what disturbs the
// machine then disturbs both.
struct Rounds {
  std::vector<double> values;
  std::vector<double> baselines;
  bool noisy = false;

  // One of nought, which could not be measured, only makes the result noisy.
  void add_baseline(const Baseline& baseline);
  // Noisy when the largest baseline is more than so many times the smallest.
  void judge_spread(double spread_max);
  [[nodiscard]] Result result(std::string name, std::string unit, nlohmann::json params) const;
};

}  // namespace simm::bench
