#include "libclient/gpu_allocator.h"

#include <limits>
#include <string>

#include "ipc/cuda/driver.h"
#include "libclient/gpu_context.h"

namespace simm::detail {

namespace {

Error failed_step(const cuda::Driver& driver, const char* step, cuda::Result result) {
  const Status status = result == cuda::kOutOfMemory ? Status::out_of_memory : Status::unsupported;
  return {status, std::string("memory of a GPU: ") + step + ": " + driver.error_name(result)};
}

// A GPU that memory is asked of.
struct Place {
  const cuda::Driver& driver;
  cuda::Device device;
  cuda::Context context;
  cuda::AllocationProperties properties{};
};

Expected<Place> place_of(int ordinal) {
  const auto loaded = cuda::Driver::load();
  if (!loaded) return loaded.error();
  const cuda::Driver& driver = **loaded;
  cuda::Result result = driver.init(0);
  if (result != cuda::kSuccess) return failed_step(driver, "the driver does not start", result);
  cuda::Device device = 0;
  result = driver.device_get(&device, ordinal);
  if (result != cuda::kSuccess) {
    return Error{Status::invalid_argument, "device = " + std::to_string(ordinal) + ": " +
                                               driver.error_name(result) +
                                               ": this process sees no such GPU"};
  }
  int gives_descriptors = 0;
  result = driver.device_get_attribute(&gives_descriptors, cuda::kDevicePosixDescriptors, device);
  if (result != cuda::kSuccess || gives_descriptors == 0) {
    return Error{Status::unsupported, "device = " + std::to_string(ordinal) +
                                          ": this GPU exports no memory as descriptors"};
  }
  int has_direct_rdma = 0;
  (void)driver.device_get_attribute(&has_direct_rdma, cuda::kDeviceDirectRdma, device);
  // One reference for each process is enough; more of them cost nothing.
  cuda::Context context = nullptr;
  result = driver.primary_context_retain(&context, device);
  if (result != cuda::kSuccess) return failed_step(driver, "no context", result);
  Place place{driver, device, context};
  place.properties.type = cuda::kAllocationPinned;
  place.properties.requested_handle_types = cuda::kHandlePosixDescriptor;
  place.properties.location = {cuda::kLocationDevice, device};
  place.properties.flags.gpu_direct_rdma_capable = has_direct_rdma != 0 ? 1 : 0;
  return place;
}

// Whole granules.
Expected<std::uint64_t> rounded(const Place& place, std::uint64_t bytes) {
  std::size_t granule = 0;
  const cuda::Result result =
      place.driver.memory_get_granularity(&granule, &place.properties, cuda::kGranularityMinimum);
  if (result != cuda::kSuccess || granule == 0) {
    return failed_step(place.driver, "its granularity is not known", result);
  }
  if (bytes == 0 || bytes > std::numeric_limits<std::int64_t>::max() - granule) {
    return Error{Status::invalid_argument, "bytes = " + std::to_string(bytes) +
                                               ": ask for 1 at least, and for what a GPU has"};
  }
  return (bytes + granule - 1) / granule * granule;
}

// 0: not mapped, and `result` says why.
cuda::DevicePointer map(const Place& place, cuda::AllocationHandle handle, std::uint64_t bytes,
                        cuda::Result& result) {
  const cuda::Driver& driver = place.driver;
  cuda::DevicePointer address = 0;
  result = driver.address_reserve(&address, bytes, 0, 0, 0);
  if (result != cuda::kSuccess) return 0;
  result = driver.memory_map(address, bytes, 0, handle, 0);
  if (result == cuda::kSuccess) {
    const cuda::AccessDescription access{place.properties.location, cuda::kAccessReadWrite};
    result = driver.memory_set_access(address, bytes, &access, 1);
    if (result == cuda::kSuccess) return address;
    (void)driver.memory_unmap(address, bytes);
  }
  (void)driver.address_free(address, bytes);
  return 0;
}

}  // namespace

Expected<void*> allocate_gpu_memory(std::uint64_t bytes, int device) {
  const auto place = place_of(device);
  if (!place) return place.error();
  const auto whole = rounded(*place, bytes);
  if (!whole) return whole.error();
  const cuda::Driver& driver = place->driver;
  const GpuContext current(driver, place->context);
  cuda::Result result = current.result();
  if (result != cuda::kSuccess) return failed_step(driver, "no context", result);
  cuda::AllocationHandle handle = 0;
  result = driver.memory_create(&handle, *whole, &place->properties, 0);
  if (result != cuda::kSuccess && place->properties.flags.gpu_direct_rdma_capable != 0 &&
      result != cuda::kOutOfMemory) {
    // A GPU may say that NICs reach such memory where a virtual machine keeps them from it.
    cuda::AllocationProperties plain = place->properties;
    plain.flags.gpu_direct_rdma_capable = 0;
    result = driver.memory_create(&handle, *whole, &plain, 0);
  }
  if (result != cuda::kSuccess) return failed_step(driver, "it can not be had", result);
  const cuda::DevicePointer address = map(*place, handle, *whole, result);
  (void)driver.memory_release(handle);  // the mapping keeps the memory
  if (address == 0) return failed_step(driver, "it can not be mapped", result);
  return reinterpret_cast<void*>(address);
}

Outcome free_gpu_memory(void* address, std::uint64_t bytes, int device) {
  const auto place = place_of(device);
  if (!place) return place.error();
  const auto whole = rounded(*place, bytes);
  if (!whole) return whole.error();
  const cuda::Driver& driver = place->driver;
  const GpuContext current(driver, place->context);
  const auto pointer = reinterpret_cast<cuda::DevicePointer>(address);
  // What was queued may still use the memory. An error of that work is its owner's.
  (void)driver.context_synchronize();
  const cuda::Result result = driver.memory_unmap(pointer, *whole);
  if (result != cuda::kSuccess) {
    return Error{Status::invalid_argument,
                 "address: no allocation of " + std::to_string(bytes) +
                     " bytes begins there: " + driver.error_name(result) +
                     ": give what simm_gpu_malloc() returned, and the same bytes"};
  }
  (void)driver.address_free(pointer, *whole);
  return Done{};
}

}  // namespace simm::detail
