// GpuImports: memory of clients on one GPU, as its helper reaches it: allocations that came as
// descriptors, each mapped at an address of the helper's own. Thread: the helper's one.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/memory/gpu/gpu_protocol.h"
#include "ipc/cuda/driver.h"
#include "simm/expected.h"

namespace simm::memory {

class GpuImports {
public:
  GpuImports(const cuda::Driver& driver, int ordinal);

  // Maps the allocation. The descriptor stays the caller's. invalid_argument: the driver does not
  // take the descriptor, the number is in use, or the allocation lies elsewhere; out_of_memory.
  Outcome import(std::uint32_t number, int descriptor, std::uint64_t allocation_bytes);
  Outcome release(std::uint32_t number);

  // The device address of a range of an import; 0: there is no such range.
  [[nodiscard]] cuda::DevicePointer find(std::uint32_t number, std::uint64_t offset,
                                         std::uint64_t length) const noexcept;

private:
  struct Import {
    cuda::DevicePointer address = 0;  // 0: the number is free
    std::uint64_t bytes = 0;          // of the allocation
  };
  Outcome map(Import& import, cuda::AllocationHandle handle);
  [[nodiscard]] Error failed(const char* what, cuda::Result result) const;

  const cuda::Driver& driver_;
  const int ordinal_;
  std::uint64_t granularity_bytes_ = 0;
  std::vector<Import> imports_;  // by number
};

}  // namespace simm::memory
