#include "daemon/tools/simm-bench/measured_node.h"

#include <utility>

namespace simm::bench {

Expected<MeasuredNode> MeasuredNode::open(const BenchOptions& options,
                                          const ClusterOptions& cluster) {
  MeasuredNode node;
  if (!options.socket_path.empty()) {
    const Expected<pid_t> pid = daemon_pid(options.socket_path);
    if (!pid) return pid.error();
    node.socket_path_ = options.socket_path;
    node.pid_ = *pid;
    return node;
  }
  Expected<LoopbackCluster> own = LoopbackCluster::start(cluster);
  if (!own) return own.error();
  node.socket_path_ = own->node().socket_path();
  node.pid_ = own->node().pid();
  node.own_.emplace(std::move(*own));
  return node;
}

}  // namespace simm::bench
