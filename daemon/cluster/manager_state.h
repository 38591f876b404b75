// ManagerState: all that a manager has to remember over its own death. A plain value; its bytes are
// what a Coordinator keeps. Thread: any.
#pragma once

#include <vector>

#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

// How many are remembered; the oldest are forgotten first.
inline constexpr std::size_t kRetiredMax = 256;

struct ManagerState {
  SlotMapPtr map;
  // Incarnations whose place another incarnation of the same name has taken: they never come back.
  std::vector<DaemonIdentity> retired;
};

}  // namespace simm::cluster
