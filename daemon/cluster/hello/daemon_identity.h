// DaemonIdentity: who is at the other end of a control connection, as the hello has proved it.
// Names are unique among daemons of one role. A plain value. Thread: any.
#pragma once

#include <string>

#include "daemon/cluster/hello/cluster_role.h"
#include "daemon/cluster/hello/incarnation.h"

namespace simm::cluster {

struct DaemonIdentity {
  Incarnation incarnation;
  ClusterRole role = ClusterRole::node;
  std::string name;

  bool operator==(const DaemonIdentity&) const = default;
};

}  // namespace simm::cluster
