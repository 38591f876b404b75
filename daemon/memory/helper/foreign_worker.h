// The worker process of a client's foreign regions: copies its private memory into the bounce file,
// and bytes of the pool's arena into its private memory, one job after the other. A copy can hang
// for as long as the client likes (userfaultfd, FUSE), even beyond the client's death: then this
// process is killed, and nobody else notices.
//
// Its real user is the client's, without any capability, so the kernel lets it touch what that
// user's own debugger might, in particular no program of another user that the client executes
// later. The other way round nothing is open: it has the arena, with bytes of other tenants,
// mapped, to read (daemon/SECURITY.md says what keeps the client away from it). It hears nothing
// but the daemon's jobs. Thread: the worker process has one.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "daemon/memory/helper/client_process.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"

namespace simm::memory {

struct ForeignWorkerSetup {
  ClientProcess client;
  gid_t gid = 0;
  pid_t helper = 0;  // whose death is this process's too
  ipc::FdSocket jobs;
  ipc::UniqueFd bounce;
  ipc::UniqueFd arena;
  std::uint64_t arena_bytes = 0;
};

// How it ends. The daemon only sees that it has.
enum class ForeignWorkerExit : int {
  hung_up = 0,       // the daemon, or the helper, is gone
  wrong_client = 1,  // the process is not the one that connected
  no_privilege = 2,  // to act as the client, or to shut itself off
  unsound_job = 3,   // outside of the bounce file or the arena: nothing was touched
  no_memory = 4,     // a file could not be mapped
};

// Runs until the daemon hangs up, and ends the process.
[[noreturn]] void run_foreign_worker(ForeignWorkerSetup setup);

}  // namespace simm::memory
