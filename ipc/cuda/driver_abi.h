// What this project calls of NVIDIA's driver (libcuda.so.1), declared here: its header is not
// ours to ship. Names, numbers and layouts are those of the CUDA driver API, version 12; each
// function is named with the version suffix that fixes its signature.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simm::cuda {

using Result = int;  // CUresult
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kHostMemoryAlreadyRegistered = 712;

using Device = int;
using DevicePointer = std::uint64_t;     // CUdeviceptr
using AllocationHandle = std::uint64_t;  // CUmemGenericAllocationHandle
struct ContextType;
struct StreamType;
struct EventType;
using Context = ContextType*;
using Stream = StreamType*;
using Event = EventType*;

struct Uuid {
  unsigned char bytes[16];
};

// CUpointer_attribute
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerIsLegacyIpcCapable = 10;
inline constexpr int kPointerAllowedHandleTypes = 14;
// CUmemorytype
inline constexpr unsigned kMemoryTypeDevice = 2;

// CUdevice_attribute
inline constexpr int kDevicePosixDescriptors = 103;
inline constexpr int kDeviceDirectRdma = 110;  // of memory of cuMemCreate
inline constexpr int kDeviceReadOnlyHostRegister = 113;

// CUmemAllocationProp and what it consists of.
inline constexpr int kAllocationPinned = 1;
inline constexpr int kHandlePosixDescriptor = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;
struct Location {
  int type;
  int id;
};
struct AllocationProperties {
  int type;
  int requested_handle_types;
  Location location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
static_assert(sizeof(AllocationProperties) == 32 &&
              offsetof(AllocationProperties, win32_handle_meta_data) == 16);
struct AccessDescription {
  Location location;
  int flags;
};
static_assert(sizeof(AccessDescription) == 12);

// cuMemHostRegister
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterReadOnly = 8;
// cuStreamCreate
inline constexpr unsigned kStreamNonBlocking = 1;
// cuEventCreate
inline constexpr unsigned kEventDisableTiming = 2;

// CU_STREAM_LEGACY: the default stream, which waits for all streams that are not "non-blocking".
inline Stream legacy_stream() noexcept {
  return reinterpret_cast<Stream>(std::uintptr_t{1});
}

}  // namespace simm::cuda
