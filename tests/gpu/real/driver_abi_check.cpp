// What ipc/cuda/driver_abi.h declares, against NVIDIA's own header: compiled by real.sh where
// <cuda.h> is to be had, and never run.
#include <cuda.h>

#include <type_traits>

#include "ipc/cuda/driver_abi.h"

namespace simm::cuda {

static_assert(sizeof(CUmemAllocationProp) == sizeof(AllocationProperties));
static_assert(offsetof(CUmemAllocationProp, location) == offsetof(AllocationProperties, location));
static_assert(offsetof(CUmemAllocationProp, win32HandleMetaData) ==
              offsetof(AllocationProperties, win32_handle_meta_data));
static_assert(offsetof(CUmemAllocationProp, allocFlags) == offsetof(AllocationProperties, flags));
static_assert(sizeof(CUmemAccessDesc) == sizeof(AccessDescription));
static_assert(sizeof(CUuuid) == sizeof(Uuid));
static_assert(sizeof(CUdeviceptr) == sizeof(DevicePointer));
static_assert(sizeof(CUmemGenericAllocationHandle) == sizeof(AllocationHandle));
static_assert(std::is_same_v<CUdevice, Device>);
static_assert(std::is_same_v<decltype(&cuMemGetInfo_v2), CUresult (*)(std::size_t*, std::size_t*)>);
static_assert(std::is_same_v<decltype(&cuMemcpyDtoDAsync_v2),
                             CUresult (*)(CUdeviceptr, CUdeviceptr, std::size_t, CUstream)>);
static_assert(std::is_same_v<decltype(&cuMemsetD8Async),
                             CUresult (*)(CUdeviceptr, unsigned char, std::size_t, CUstream)>);

static_assert(CUDA_SUCCESS == kSuccess);
static_assert(CUDA_ERROR_INVALID_VALUE == kInvalidValue);
static_assert(CUDA_ERROR_OUT_OF_MEMORY == kOutOfMemory);
static_assert(CUDA_ERROR_NOT_INITIALIZED == kNotInitialized);
static_assert(CUDA_ERROR_NOT_READY == kNotReady);
static_assert(CUDA_ERROR_ILLEGAL_ADDRESS == kIllegalAddress);
static_assert(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED == kHostMemoryAlreadyRegistered);

static_assert(CU_POINTER_ATTRIBUTE_CONTEXT == kPointerContext);
static_assert(CU_POINTER_ATTRIBUTE_MEMORY_TYPE == kPointerMemoryType);
static_assert(CU_POINTER_ATTRIBUTE_IS_MANAGED == kPointerIsManaged);
static_assert(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == kPointerDeviceOrdinal);
static_assert(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE == kPointerIsLegacyIpcCapable);
static_assert(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES == kPointerAllowedHandleTypes);
static_assert(CU_MEMORYTYPE_DEVICE == kMemoryTypeDevice);

static_assert(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ==
              kDevicePosixDescriptors);
static_assert(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED == kDeviceDirectRdma);
static_assert(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED == kDeviceReadOnlyHostRegister);

static_assert(CU_MEM_ALLOCATION_TYPE_PINNED == kAllocationPinned);
static_assert(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR == kHandlePosixDescriptor);
static_assert(CU_MEM_LOCATION_TYPE_DEVICE == kLocationDevice);
static_assert(CU_MEM_ACCESS_FLAGS_PROT_READWRITE == kAccessReadWrite);
static_assert(CU_MEM_ALLOC_GRANULARITY_MINIMUM == kGranularityMinimum);
static_assert(CU_MEMHOSTREGISTER_PORTABLE == kHostRegisterPortable);
static_assert(CU_MEMHOSTREGISTER_READ_ONLY == kHostRegisterReadOnly);
static_assert(CU_STREAM_NON_BLOCKING == kStreamNonBlocking);
static_assert(CU_EVENT_DISABLE_TIMING == kEventDisableTiming);

}  // namespace simm::cuda
