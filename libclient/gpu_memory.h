// Memory of a GPU as this library sees it: recognised by its address, handed to the daemon by a
// descriptor, and ready to be read when the GPU has done what was queued before.
//
// The driver is asked only where this process has loaded it already. Only memory that the driver
// can export as a descriptor is taken: that of cuMemCreate with POSIX descriptors. Memory of
// cudaMalloc has no such descriptor.
// Thread: any.
#pragma once

#include <array>
#include <cstdint>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::detail {

// Cheap where no driver is loaded.
bool is_gpu_memory(const void* address) noexcept;

struct GpuExport {
  ipc::UniqueFd allocation;
  std::uint64_t offset = 0;  // of the range in the allocation
  std::uint64_t allocation_bytes = 0;
  std::array<std::uint8_t, 16> uuid{};  // of the GPU
  void* context = nullptr;              // the GPU's primary one
};
// unsupported, with the remedy: the driver can not export the memory. invalid_argument: the range
// is not inside one allocation.
Expected<GpuExport> export_gpu_memory(const void* address, std::uint64_t bytes);

// Waits until the GPU has done all that this process has queued on any stream so far. Afterwards a
// put may read the memory. transfer_failed: the driver reports an error, which belongs to the
// caller's earlier work.
Status wait_for_gpu(void* context) noexcept;

}  // namespace simm::detail
