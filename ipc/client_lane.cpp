#include "ipc/client_lane.h"

namespace simm::ipc {

template class BasicClientLane<DirectAccess>;

}  // namespace simm::ipc
