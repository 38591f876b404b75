// GpuKeeper: starts the helpers of GPUs. A process of its own, forked off the daemon before that
// has threads, because only a process with one thread may fork and go on. It has no privileges and
// does nothing else. Its helpers end when the keeper does, and the keeper when the daemon does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "daemon/memory/gpu/gpu_protocol.h"
#include "daemon/memory/helper/forked_helper.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm::memory {

// Forks the keeper. `drop_privileges` is called in the new process.
Expected<StartedHelper> start_gpu_keeper(const std::function<Outcome()>& drop_privileges);

// What a helper gets; the descriptors stay the caller's.
struct GpuWorkerFiles {
  int control = -1;
  int jobs = -1;
  int file = -1;
  int arena = -1;  // open for reading only; none when the daemon has no pool
  std::uint64_t arena_bytes = 0;
  bool pins_arena = false;
};

struct StartedGpuWorker {
  ipc::UniqueFd pidfd;
  pid_t pid = -1;
};

// The daemon's end. Thread: one at a time; start() waits for the keeper, five seconds at most.
class GpuKeeper {
public:
  explicit GpuKeeper(ipc::FdSocket socket) noexcept : socket_(std::move(socket)) {}

  // unreachable when the keeper has gone, or does not answer in time.
  Expected<StartedGpuWorker> start(const GpuUuid& uuid, const GpuWorkerFiles& files);

private:
  ipc::FdSocket socket_;
  std::uint32_t next_number_ = 1;
};

}  // namespace simm::memory
