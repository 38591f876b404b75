// Driver: the functions of NVIDIA's driver that this project calls, found at run time. Nothing of
// CUDA is linked, so the same program runs on hosts without a GPU.
//
// Whoever uses it: the library in the process of a client, which has the driver loaded already, and
// the GPU helper. The daemon itself never does: a driver that hangs, or a fault that sticks to its
// process, must not take the daemon along.
//
// Thread: any, once loaded. The driver stays loaded until the process ends.
#pragma once

#include <string>

#include "ipc/cuda/driver_abi.h"
#include "simm/expected.h"

namespace simm::cuda {

struct Driver {
  // libcuda.so.1, loaded now. unsupported, with the remedy, where it is not, or lacks a function.
  static Expected<const Driver*> load();
  // Only if this process has loaded it already; null: it has not, or it lacks a function.
  static const Driver* find() noexcept;

  // "CUDA_ERROR_OUT_OF_MEMORY (2)"
  [[nodiscard]] std::string error_name(Result result) const;

  Result (*init)(unsigned flags);
  Result (*get_error_name)(Result, const char**);
  Result (*device_get_count)(int*);
  Result (*device_get)(Device*, int ordinal);
  Result (*device_get_uuid)(Uuid*, Device);
  Result (*device_get_name)(char* name, int bytes, Device);
  Result (*device_get_attribute)(int*, int attribute, Device);
  Result (*device_can_access_peer)(int*, Device, Device peer);
  Result (*primary_context_retain)(Context*, Device);
  Result (*context_set_current)(Context);
  Result (*context_push)(Context);
  Result (*context_pop)(Context*);
  Result (*context_synchronize)();
  Result (*pointer_get_attribute)(void*, int attribute, DevicePointer);
  Result (*get_address_range)(DevicePointer* base, std::size_t* bytes, DevicePointer);
  Result (*memory_create)(AllocationHandle*, std::size_t bytes, const AllocationProperties*,
                          unsigned long long flags);
  Result (*memory_release)(AllocationHandle);
  Result (*memory_retain_handle)(AllocationHandle*, void* address);
  Result (*memory_export)(void* descriptor, AllocationHandle, int type, unsigned long long flags);
  Result (*memory_import)(AllocationHandle*, void* descriptor, int type);
  Result (*memory_get_properties)(AllocationProperties*, AllocationHandle);
  Result (*memory_get_granularity)(std::size_t*, const AllocationProperties*, int option);
  Result (*address_reserve)(DevicePointer*, std::size_t bytes, std::size_t alignment, DevicePointer,
                            unsigned long long flags);
  Result (*address_free)(DevicePointer, std::size_t bytes);
  Result (*memory_map)(DevicePointer, std::size_t bytes, std::size_t offset, AllocationHandle,
                       unsigned long long flags);
  Result (*memory_unmap)(DevicePointer, std::size_t bytes);
  Result (*memory_set_access)(DevicePointer, std::size_t bytes, const AccessDescription*,
                              std::size_t count);
  Result (*host_register)(void*, std::size_t bytes, unsigned flags);
  Result (*copy_to_device)(DevicePointer, const void*, std::size_t bytes, Stream);
  Result (*copy_from_device)(void*, DevicePointer, std::size_t bytes, Stream);
  Result (*copy_on_device)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream);
  Result (*fill)(DevicePointer, unsigned char value, std::size_t bytes, Stream);
  Result (*memory_get_info)(std::size_t* free_bytes, std::size_t* bytes);  // of the current device
  Result (*stream_create)(Stream*, unsigned flags);
  Result (*stream_synchronize)(Stream);
  Result (*event_create)(Event*, unsigned flags);
  Result (*event_record)(Event, Stream);
  Result (*event_query)(Event);
  Result (*event_destroy)(Event);
};

}  // namespace simm::cuda
