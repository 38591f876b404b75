#include "tests/gpu/driver/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace simm::cuda::testing {

namespace {

constexpr const char* kFileName = "simm-test-gpu-";

// The device of an allocation's file; -1: it is another file.
int device_of(int file) {
  char link[128] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::readlink(path.c_str(), link, sizeof link - 1) < 0) return -1;
  int device = -1;
  const std::string form = std::string("/memfd:") + kFileName + "%d";
  return std::sscanf(link, form.c_str(), &device) == 1 ? device : -1;
}

}  // namespace

DeviceMemory& DeviceMemory::of_process() {
  static auto* const memory = new DeviceMemory;  // threads of streams use it until the very end
  return *memory;
}

AllocationHandle DeviceMemory::add(int file, std::size_t bytes, int device, int handle_types,
                                   bool is_import) {
  allocations_[next_] = {file, bytes, device, handle_types, is_import, 1};
  return next_++;
}

void DeviceMemory::drop(AllocationHandle handle) {
  Allocation& allocation = allocations_.at(handle);
  if (--allocation.uses > 0) return;
  ::close(allocation.file);
  allocations_.erase(handle);
}

Result DeviceMemory::create(AllocationHandle& handle, std::size_t bytes,
                            const AllocationProperties& wanted) {
  if (bytes == 0 || bytes % kGranularityBytes != 0) return kInvalidValue;
  if (wanted.type != kAllocationPinned || wanted.location.type != kLocationDevice) {
    return kInvalidValue;
  }
  const std::string name = kFileName + std::to_string(wanted.location.id);
  const int file = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file < 0) return kOutOfMemory;
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    ::close(file);
    return kOutOfMemory;
  }
  const std::lock_guard lock(mutex_);
  handle = add(file, bytes, wanted.location.id, wanted.requested_handle_types, false);
  return kSuccess;
}

Result DeviceMemory::release(AllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  if (allocations_.count(handle) == 0) return kInvalidValue;
  drop(handle);
  return kSuccess;
}

Result DeviceMemory::retain(AllocationHandle& handle, DevicePointer address) {
  const std::lock_guard lock(mutex_);
  const auto found = mapping_of(address);
  if (found == mapped_.end() || found->second.is_legacy) return kInvalidValue;
  handle = found->second.allocation;
  ++allocations_.at(handle).uses;
  return kSuccess;
}

Result DeviceMemory::export_descriptor(int& descriptor, AllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(handle);
  if (found == allocations_.end()) return kInvalidValue;
  if ((found->second.handle_types & kHandlePosixDescriptor) == 0) return kInvalidValue;
  descriptor = ::fcntl(found->second.file, F_DUPFD_CLOEXEC, 3);
  return descriptor < 0 ? kOutOfMemory : kSuccess;
}

Result DeviceMemory::import_descriptor(AllocationHandle& handle, int descriptor) {
  const int device = device_of(descriptor);
  struct stat about {};
  if (device < 0 || ::fstat(descriptor, &about) != 0) return kInvalidValue;
  const int file = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (file < 0) return kOutOfMemory;
  const std::lock_guard lock(mutex_);
  handle = add(file, static_cast<std::size_t>(about.st_size), device, kHandlePosixDescriptor, true);
  return kSuccess;
}

Result DeviceMemory::properties(AllocationProperties& properties, AllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(handle);
  if (found == allocations_.end()) return kInvalidValue;
  properties = {};
  properties.type = kAllocationPinned;
  properties.requested_handle_types = found->second.handle_types;
  properties.location = {kLocationDevice, found->second.device};
  return kSuccess;
}

Result DeviceMemory::reserve(DevicePointer& address, std::size_t bytes) {
  if (bytes == 0 || bytes % kGranularityBytes != 0) return kInvalidValue;
  void* const range =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return kOutOfMemory;
  address = reinterpret_cast<DevicePointer>(range);
  const std::lock_guard lock(mutex_);
  ranges_[address] = bytes;
  return kSuccess;
}

Result DeviceMemory::free_range(DevicePointer address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second != bytes) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), bytes);
  ranges_.erase(found);
  return kSuccess;
}

Result DeviceMemory::map(DevicePointer address, std::size_t bytes, AllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  return map_locked(address, bytes, handle);
}

Result DeviceMemory::map_locked(DevicePointer address, std::size_t bytes, AllocationHandle handle) {
  const auto allocation = allocations_.find(handle);
  auto range = ranges_.upper_bound(address);
  if (allocation == allocations_.end() || range == ranges_.begin()) return kInvalidValue;
  --range;
  const bool is_inside = address + bytes <= range->first + range->second;
  // As the real driver has it: an allocation is mapped whole.
  if (!is_inside || bytes != allocation->second.bytes) return kInvalidValue;
  void* const shadow =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation->second.file, 0);
  if (shadow == MAP_FAILED) return kOutOfMemory;
  mapped_[address] = {bytes, handle, static_cast<std::byte*>(shadow), false, false};
  ++allocation->second.uses;
  return kSuccess;
}

Result DeviceMemory::unmap(DevicePointer address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = mapped_.find(address);
  if (found != mapped_.end() && found->second.is_legacy) return kInvalidValue;
  return unmap_locked(address, bytes);
}

Result DeviceMemory::unmap_locked(DevicePointer address, std::size_t bytes) {
  const auto found = mapped_.find(address);
  if (found == mapped_.end() || found->second.bytes != bytes) return kInvalidValue;
  ::munmap(found->second.shadow, bytes);
  drop(found->second.allocation);
  mapped_.erase(found);
  return kSuccess;
}

Result DeviceMemory::set_access(DevicePointer address, std::size_t bytes,
                                const AccessDescription& access, bool from_others) {
  const std::lock_guard lock(mutex_);
  const auto found = mapped_.find(address);
  if (found == mapped_.end() || found->second.bytes != bytes) return kInvalidValue;
  const int device = allocations_.at(found->second.allocation).device;
  if (access.location.id != device && !from_others) return kInvalidValue;
  found->second.has_access = access.flags == kAccessReadWrite;
  return kSuccess;
}

Result DeviceMemory::allocate(DevicePointer& address, std::size_t bytes, int device) {
  const std::size_t whole = (bytes + kGranularityBytes - 1) / kGranularityBytes * kGranularityBytes;
  AllocationProperties wanted{};
  wanted.type = kAllocationPinned;
  wanted.location = {kLocationDevice, device};
  AllocationHandle handle = 0;
  if (const Result made = create(handle, whole, wanted); made != kSuccess) return made;
  if (const Result reserved = reserve(address, whole); reserved != kSuccess) return reserved;
  const std::lock_guard lock(mutex_);
  if (const Result mapped = map_locked(address, whole, handle); mapped != kSuccess) return mapped;
  drop(handle);
  mapped_.at(address).has_access = true;
  mapped_.at(address).is_legacy = true;
  return kSuccess;
}

Result DeviceMemory::free(DevicePointer address) {
  const Facts about = facts(address);
  if (!about.is_legacy || about.base != address) return kInvalidValue;
  {
    const std::lock_guard lock(mutex_);
    if (const Result done = unmap_locked(address, about.bytes); done != kSuccess) return done;
  }
  return free_range(address, about.bytes);
}

std::map<DevicePointer, DeviceMemory::Mapped>::iterator DeviceMemory::mapping_of(
    DevicePointer address) {
  auto found = mapped_.upper_bound(address);
  if (found == mapped_.begin()) return mapped_.end();
  --found;
  return address - found->first < found->second.bytes ? found : mapped_.end();
}

std::byte* DeviceMemory::find(DevicePointer address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = mapping_of(address);
  if (found == mapped_.end() || !found->second.has_access) return nullptr;
  const std::size_t offset = address - found->first;
  return bytes <= found->second.bytes - offset ? found->second.shadow + offset : nullptr;
}

std::size_t DeviceMemory::created_bytes() {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [handle, allocation] : allocations_) {
    sum += allocation.is_import ? 0 : allocation.bytes;
  }
  return sum;
}

DeviceMemory::Facts DeviceMemory::facts(DevicePointer address) {
  const std::lock_guard lock(mutex_);
  const auto found = mapping_of(address);
  if (found == mapped_.end()) return {};
  const Allocation& allocation = allocations_.at(found->second.allocation);
  return {found->first, found->second.bytes, allocation.device,
          found->second.is_legacy ? 0 : allocation.handle_types, found->second.is_legacy};
}

}  // namespace simm::cuda::testing
