// The worker process of a client's foreign regions: copies between its private memory and the
// bounce file, one job after the other. A copy can hang for as long as the client likes
// (userfaultfd, FUSE), even beyond the client's death: then this process is killed, and nobody else
// notices.
//
// It runs as the client's user without any capability, so the kernel lets it touch what that user's
// own debugger might, in particular no program of another user that the client executes later.
// Thread: the worker process has one.
#pragma once

#include <sys/types.h>

#include "daemon/memory/client_process.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"

namespace simm::memory {

// Runs until the daemon hangs up. The exit code of the process.
int run_foreign_worker(const ClientProcess& client, gid_t gid, ipc::FdSocket jobs,
                       ipc::UniqueFd bounce);

}  // namespace simm::memory
