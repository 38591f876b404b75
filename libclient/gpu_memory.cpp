#include "libclient/gpu_memory.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "ipc/cuda/driver.h"
#include "libclient/gpu_context.h"
#include "libclient/last_error.h"

namespace simm::detail {

namespace {

constexpr const char* kRemedy =
    "use memory of simm_gpu_malloc() (Python: simm.gpu.pool()), or of cuMemCreate with POSIX "
    "descriptors, one allocation for each pool";

Error failed(const cuda::Driver& driver, const char* what, cuda::Result result) {
  return {Status::unsupported, std::string("memory of a GPU: ") + what + ": " +
                                   driver.error_name(result) + "; " + kRemedy};
}

}  // namespace

bool is_gpu_memory(const void* address) noexcept {
  const cuda::Driver* const driver = cuda::Driver::find();
  if (driver == nullptr) return false;
  unsigned type = 0;
  unsigned is_managed = 0;
  const auto pointer = reinterpret_cast<cuda::DevicePointer>(address);
  return driver->pointer_get_attribute(&type, cuda::kPointerMemoryType, pointer) ==
             cuda::kSuccess &&
         type == cuda::kMemoryTypeDevice &&
         driver->pointer_get_attribute(&is_managed, cuda::kPointerIsManaged, pointer) ==
             cuda::kSuccess &&
         is_managed == 0;
}

Expected<GpuExport> export_gpu_memory(const void* address, std::uint64_t bytes) {
  if (!is_gpu_memory(address)) {
    return Error{Status::invalid_argument,
                 "address: kind gpu is for memory of a GPU, of a driver that this process uses"};
  }
  const cuda::Driver& driver = *cuda::Driver::find();
  const auto pointer = reinterpret_cast<cuda::DevicePointer>(address);
  cuda::DevicePointer base = 0;
  std::size_t allocation_bytes = 0;
  cuda::Result result = driver.get_address_range(&base, &allocation_bytes, pointer);
  if (result != cuda::kSuccess) return failed(driver, "its allocation is not known", result);
  GpuExport made;
  made.offset = pointer - base;
  made.allocation_bytes = allocation_bytes;
  if (bytes > allocation_bytes - made.offset) {
    return Error{Status::invalid_argument,
                 "bytes = " + std::to_string(bytes) + ": the allocation has " +
                     std::to_string(allocation_bytes - made.offset) +
                     " from the address on: register each allocation, or switch expandable "
                     "segments off"};
  }
  int ordinal = 0;
  cuda::Device device = 0;
  cuda::Uuid uuid{};
  result = driver.pointer_get_attribute(&ordinal, cuda::kPointerDeviceOrdinal, pointer);
  if (result == cuda::kSuccess) result = driver.device_get(&device, ordinal);
  if (result == cuda::kSuccess) result = driver.device_get_uuid(&uuid, device);
  if (result != cuda::kSuccess) return failed(driver, "its device is not known", result);
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), made.uuid.begin());
  cuda::Context context = nullptr;
  result = driver.primary_context_retain(&context, device);
  if (result != cuda::kSuccess) return failed(driver, "its context is not known", result);
  made.context = context;
  cuda::AllocationHandle handle = 0;
  result = driver.memory_retain_handle(&handle, const_cast<void*>(address));
  if (result != cuda::kSuccess) return failed(driver, "it has no handle (cudaMalloc)", result);
  int descriptor = -1;
  result = driver.memory_export(&descriptor, handle, cuda::kHandlePosixDescriptor, 0);
  (void)driver.memory_release(handle);
  if (result != cuda::kSuccess) return failed(driver, "it was made without descriptors", result);
  made.allocation.reset(descriptor);
  return made;
}

Status wait_for_gpu(void* context) noexcept {
  const cuda::Driver* const driver = cuda::Driver::find();
  if (driver == nullptr)
    return fail(Status::transfer_failed, "memory of a GPU: its driver is gone");
  const GpuContext current(*driver, static_cast<cuda::Context>(context));
  if (current.result() != cuda::kSuccess) {
    return fail(Status::transfer_failed, "memory of a GPU: its context is gone");
  }
  const cuda::Result result = driver->context_synchronize();
  if (result == cuda::kSuccess) return Status::ok;
  return fail(Status::transfer_failed, "memory of a GPU: work that was queued on it failed: %s",
              driver->error_name(result).c_str());
}

}  // namespace simm::detail
