// GpuWorker: the helper process of one GPU: the only process of the daemon that loads NVIDIA's
// driver. It maps memory of clients by its descriptors, and copies between that memory and the
// pool. What it can write is the memory of those clients, and the bounce buffers.
//
// One thread, which never waits for a copy. When the driver hangs, its beat stops, and the daemon
// kills it. An error of the driver that sticks to its process ends it. Either costs what is under
// way on this GPU, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/memory/gpu/gpu_protocol.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"

namespace simm::memory {

// What is queued at the driver, each way: enough until the next turn. Whatever comes behind it,
// such as memory of the tier that has to go back, waits for no more than that. The other pieces
// wait here, where they can be given up.
inline constexpr std::uint64_t kGpuQueuedBytesMax = 16 << 20;
// How many pieces that is depends on the driver: twice as many when it ran dry between two turns,
// one less when a turn finds none of them done.
inline constexpr std::size_t kGpuQueuedPiecesMin = 8;

struct GpuWorkerSetup {
  GpuUuid uuid{};
  ipc::FdSocket control;
  ipc::FdSocket jobs;
  ipc::UniqueFd file;
  ipc::UniqueFd arena;  // of the pool, open for reading and nothing else; none: there is no pool
  std::uint64_t arena_bytes = 0;
  bool pins_arena = false;
};

// In a process of its own without privileges. Says on `control` whether it has the GPU, and works
// until the daemon hangs up.
[[noreturn]] void run_gpu_worker(GpuWorkerSetup setup);

}  // namespace simm::memory
