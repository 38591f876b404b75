// GpuAllocator: memory of a GPU that a daemon can take, also from a process in another container.
// Each piece is one allocation of the driver with a POSIX descriptor, mapped for its own GPU, in
// whole granules (2 MiB). The way is that of the CUDA driver API's virtual memory management:
// create, reserve, map, set access.
// Thread: any. Nothing is remembered between two calls: the driver has all facts.
#pragma once

#include <cstdint>

#include "simm/expected.h"

namespace simm::detail {

// Loads the driver. unsupported: there is none, or this GPU gives no descriptors. out_of_memory:
// the GPU has no room. invalid_argument: the device, or no bytes.
Expected<void*> allocate_gpu_memory(std::uint64_t bytes, int device);

// `bytes` as given to the allocation. Waits first until the GPU has done what this process queued.
// invalid_argument: the driver knows no such allocation; nothing is freed then.
Outcome free_gpu_memory(void* address, std::uint64_t bytes, int device);

}  // namespace simm::detail
