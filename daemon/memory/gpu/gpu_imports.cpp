#include "daemon/memory/gpu/gpu_imports.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace simm::memory {

GpuImports::GpuImports(const cuda::Driver& driver, int ordinal, const GpuUuid& uuid)
    : driver_(driver), ordinal_(ordinal), uuid_(uuid), imports_(kGpuImportsMax) {
  cuda::AllocationProperties wanted{};
  wanted.type = cuda::kAllocationPinned;
  wanted.requested_handle_types = cuda::kHandlePosixDescriptor;
  wanted.location = {cuda::kLocationDevice, ordinal};
  std::size_t granularity = 0;
  if (driver_.memory_get_granularity(&granularity, &wanted, cuda::kGranularityMinimum) ==
      cuda::kSuccess) {
    granularity_bytes_ = granularity;
  }
}

Error GpuImports::failed(const char* what, cuda::Result result) const {
  const Status status =
      result == cuda::kOutOfMemory ? Status::out_of_memory : Status::invalid_argument;
  return {status, std::string(what) + ": " + driver_.error_name(result)};
}

Expected<int> GpuImports::reachable(const GpuUuid& home) const {
  if (home == uuid_) return ordinal_;
  cuda::Device own = 0;
  int count = 0;
  (void)driver_.device_get(&own, ordinal_);
  (void)driver_.device_get_count(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::Device device = 0;
    cuda::Uuid uuid{};
    if (driver_.device_get(&device, ordinal) != cuda::kSuccess) continue;
    if (driver_.device_get_uuid(&uuid, device) != cuda::kSuccess) continue;
    if (!std::equal(home.begin(), home.end(), std::begin(uuid.bytes))) continue;
    int can_access = 0;
    (void)driver_.device_can_access_peer(&can_access, own, device);
    if (can_access != 0) return ordinal;
  }
  return Error{Status::unsupported, "this GPU has no access to memory of the other one"};
}

Outcome GpuImports::import(std::uint32_t number, int descriptor, std::uint64_t allocation_bytes,
                           const GpuUuid& home) {
  if (number >= imports_.size() || imports_[number].address != 0) {
    return Error{Status::invalid_argument, "the import's number is in use"};
  }
  if (granularity_bytes_ == 0 || allocation_bytes == 0 ||
      allocation_bytes % granularity_bytes_ != 0) {
    return Error{Status::invalid_argument,
                 "allocation_bytes = " + std::to_string(allocation_bytes) + ": a multiple of " +
                     std::to_string(granularity_bytes_) + ", as cuMemCreate takes it"};
  }
  const Expected<int> home_ordinal = reachable(home);
  if (!home_ordinal) return home_ordinal.error();
  cuda::AllocationHandle handle = 0;
  const auto as_pointer = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  if (const cuda::Result result =
          driver_.memory_import(&handle, as_pointer, cuda::kHandlePosixDescriptor);
      result != cuda::kSuccess) {
    return failed("the descriptor is of no allocation of a GPU", result);
  }
  Import import{0, allocation_bytes, *home_ordinal != ordinal_};
  const Outcome mapped = map(import, handle, *home_ordinal);
  // The mapping keeps the allocation.
  (void)driver_.memory_release(handle);
  if (mapped) imports_[number] = import;
  return mapped;
}

Outcome GpuImports::map(Import& import, cuda::AllocationHandle handle, int home) {
  cuda::AllocationProperties properties{};
  cuda::Result result = driver_.memory_get_properties(&properties, handle);
  if (result != cuda::kSuccess) return failed("properties of the allocation", result);
  if (properties.location.type != cuda::kLocationDevice || properties.location.id != home) {
    return Error{Status::invalid_argument,
                 "the allocation lies on another GPU than the one that the request names"};
  }
  cuda::DevicePointer address = 0;
  result = driver_.address_reserve(&address, import.bytes, 0, 0, 0);
  if (result != cuda::kSuccess) return failed("reserve addresses", result);
  result = driver_.memory_map(address, import.bytes, 0, handle, 0);
  if (result != cuda::kSuccess) {
    (void)driver_.address_free(address, import.bytes);
    return failed("map the allocation: is allocation_bytes its size?", result);
  }
  const cuda::AccessDescription access{{cuda::kLocationDevice, ordinal_}, cuda::kAccessReadWrite};
  result = driver_.memory_set_access(address, import.bytes, &access, 1);
  if (result != cuda::kSuccess) {
    (void)driver_.memory_unmap(address, import.bytes);
    (void)driver_.address_free(address, import.bytes);
    return failed("access to the allocation", result);
  }
  import.address = address;
  return Done{};
}

Outcome GpuImports::release(std::uint32_t number) {
  if (number >= imports_.size() || imports_[number].address == 0) {
    return Error{Status::invalid_argument, "there is no such import"};
  }
  Import& import = imports_[number];
  const cuda::Result unmapped = driver_.memory_unmap(import.address, import.bytes);
  if (unmapped != cuda::kSuccess) return failed("unmap", unmapped);
  (void)driver_.address_free(import.address, import.bytes);
  import = {};
  return Done{};
}

cuda::DevicePointer GpuImports::find(std::uint32_t number, std::uint64_t offset,
                                     std::uint64_t length) const noexcept {
  if (number >= imports_.size() || imports_[number].address == 0) return 0;
  const Import& import = imports_[number];
  return ipc::range_within(offset, length, import.bytes) ? import.address + offset : 0;
}

}  // namespace simm::memory
