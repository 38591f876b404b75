// GpuImports: memory of clients on one GPU, as its helper reaches it: allocations that came as
// descriptors, each mapped at an address of the helper's own. Memory of another GPU is mapped where
// the driver gives this GPU access to that one's. Thread: the helper's one.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/memory/gpu/gpu_protocol.h"
#include "ipc/cuda/driver.h"
#include "simm/expected.h"

namespace simm::memory {

class GpuImports {
public:
  GpuImports(const cuda::Driver& driver, int ordinal, const GpuUuid& uuid);

  // Maps the allocation. The descriptor stays the caller's. invalid_argument: the driver does not
  // take the descriptor, the number is in use, or the allocation lies elsewhere than on `home`;
  // out_of_memory. unsupported: this GPU has no access to memory of that one.
  Outcome import(std::uint32_t number, int descriptor, std::uint64_t allocation_bytes,
                 const GpuUuid& home);
  Outcome release(std::uint32_t number);

  // The device address of a range of an import; 0: there is no such range.
  [[nodiscard]] cuda::DevicePointer find(std::uint32_t number, std::uint64_t offset,
                                         std::uint64_t length) const noexcept;
  // It lies on another GPU.
  [[nodiscard]] bool is_of_peer(std::uint32_t number) const noexcept {
    return imports_[number].is_of_peer;
  }

private:
  struct Import {
    cuda::DevicePointer address = 0;  // 0: the number is free
    std::uint64_t bytes = 0;          // of the allocation
    bool is_of_peer = false;
  };
  // The driver's number for the GPU, if this one may reach its memory.
  [[nodiscard]] Expected<int> reachable(const GpuUuid& home) const;
  Outcome map(Import& import, cuda::AllocationHandle handle, int home);
  [[nodiscard]] Error failed(const char* what, cuda::Result result) const;

  const cuda::Driver& driver_;
  const int ordinal_;
  const GpuUuid uuid_;
  std::uint64_t granularity_bytes_ = 0;
  std::vector<Import> imports_;  // by number
};

}  // namespace simm::memory
