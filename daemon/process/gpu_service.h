// What a daemon with memory of GPUs does before it makes threads: it forks the process that starts
// the helpers of GPUs (daemon/memory/gpu/gpu_keeper.h). Thread: start-up, before any other thread.
#pragma once

#include "daemon/base/config.h"
#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm {

// The way to that process, which becomes the configured user; not valid when gpu.enabled is off.
Expected<ipc::FdSocket> start_gpu_service(const base::Config& config);

}  // namespace simm
