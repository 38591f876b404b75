#include "ipc/daemon_lane.h"

namespace simm::ipc {

template class BasicDaemonLane<DirectAccess>;

}  // namespace simm::ipc
