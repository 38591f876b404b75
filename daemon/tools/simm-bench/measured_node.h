// MeasuredNode: the node of a cluster that is measured: the one that --daemon names, or that of a
// cluster of our own, which ends with it. Thread: the one that opened it.
#pragma once

#include <optional>
#include <string>

#include "daemon/tools/simm-bench/bench_options.h"
#include "daemon/tools/simm-bench/loopback_cluster.h"

namespace simm::bench {

class MeasuredNode {
public:
  static Expected<MeasuredNode> open(const BenchOptions& options, const ClusterOptions& cluster);

  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

private:
  MeasuredNode() = default;

  std::string socket_path_;
  pid_t pid_ = -1;
  std::optional<LoopbackCluster> own_;
};

}  // namespace simm::bench
