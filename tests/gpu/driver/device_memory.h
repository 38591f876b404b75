// DeviceMemory: what the tests' driver knows of the memory of its GPUs, in one process.
//
// An allocation is a memory file, so it can be shared with another process by its descriptor, and
// is free when nobody has it any more. A device address lies in a range that no process can touch:
// a stray access of the host faults. Copies go through a second mapping, which only this class
// knows. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "ipc/cuda/driver_abi.h"

namespace simm::cuda::testing {

inline constexpr std::size_t kGranularityBytes = 2 << 20;

class DeviceMemory {
public:
  static DeviceMemory& of_process();

  Result create(AllocationHandle& handle, std::size_t bytes, const AllocationProperties& wanted);
  Result release(AllocationHandle handle);
  Result retain(AllocationHandle& handle, DevicePointer address);
  Result export_descriptor(int& descriptor, AllocationHandle handle);
  // invalid value: the descriptor is not of an allocation.
  Result import_descriptor(AllocationHandle& handle, int descriptor);
  Result properties(AllocationProperties& properties, AllocationHandle handle);

  Result reserve(DevicePointer& address, std::size_t bytes);
  Result free_range(DevicePointer address, std::size_t bytes);
  Result map(DevicePointer address, std::size_t bytes, AllocationHandle handle);
  Result unmap(DevicePointer address, std::size_t bytes);
  // `from_others`: a device may have access to memory of another one.
  Result set_access(DevicePointer address, std::size_t bytes, const AccessDescription& access,
                    bool from_others);

  // As cudaMalloc: memory without a handle.
  Result allocate(DevicePointer& address, std::size_t bytes, int device);
  Result free(DevicePointer address);

  // Where the device has a byte and those behind it; null when not all of them are mapped with
  // access.
  std::byte* find(DevicePointer address, std::size_t bytes);
  struct Facts {
    DevicePointer base = 0;
    std::size_t bytes = 0;  // 0: no memory of a device
    int device = 0;
    int handle_types = 0;
    bool is_legacy = false;
  };
  Facts facts(DevicePointer address);
  // Of what this process has made and somebody of it still has.
  std::size_t created_bytes();

private:
  struct Allocation {
    int file = -1;
    std::size_t bytes = 0;
    int device = 0;
    int handle_types = 0;
    bool is_import = false;
    unsigned uses = 0;  // handles and mappings
  };
  struct Mapped {
    std::size_t bytes = 0;
    AllocationHandle allocation = 0;
    std::byte* shadow = nullptr;
    bool has_access = false;
    bool is_legacy = false;
  };
  void drop(AllocationHandle handle);
  AllocationHandle add(int file, std::size_t bytes, int device, int handle_types, bool is_import);
  // The mapping with the address; end(): none.
  std::map<DevicePointer, Mapped>::iterator mapping_of(DevicePointer address);
  Result map_locked(DevicePointer address, std::size_t bytes, AllocationHandle handle);
  Result unmap_locked(DevicePointer address, std::size_t bytes);

  std::mutex mutex_;
  std::map<AllocationHandle, Allocation> allocations_;
  std::map<DevicePointer, std::size_t> ranges_;
  std::map<DevicePointer, Mapped> mapped_;
  AllocationHandle next_ = 1;
};

}  // namespace simm::cuda::testing
