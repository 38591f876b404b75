// The tests' libcuda.so.1: the functions of ipc/cuda/driver.h (and a few that only tests call) on
// memory of the host. Neither the daemon nor the client knows the difference.
//
// Environment: SIMM_TEST_GPUS, how many GPUs there are (1); SIMM_TEST_GPU_SEED, of the delays (1);
// SIMM_TEST_GPU_DESCRIPTORS, whether GPUs export memory as descriptors (1);
// SIMM_TEST_GPU_PEERS, whether a GPU has access to memory of another one (1);
// SIMM_TEST_GPU_FAULTS, a file that is read at each point where something can go wrong. Its lines:
//   init=CODE  create=CODE  import=CODE  register=CODE  copy=CODE  query=CODE
//   event=CODE
// CODE is what the function returns; `hang` instead of a number: the function never returns;
// `wait`: not before the line has gone. An error of a copy sticks: all later copies and queries of
// the process return it as well.
//   slow=MICROSECONDS: that each copy takes longer.
//   copies=N: so many copies and fills are done from then on, the next ones wait until the line has
//     gone or says another number.
//   memory=BYTES: of each GPU, 1 TiB without that line. What other processes made is not counted.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/driver/device_memory.h"
#include "tests/gpu/driver/device_stream.h"

namespace simm::cuda {

struct ContextType {};
struct StreamType {
  explicit StreamType(std::uint64_t seed) : stream(seed) {}
  testing::DeviceStream stream;
};
struct EventType {
  testing::DeviceStream* stream = nullptr;
  std::uint64_t piece = 0;
};

namespace testing {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

int device_count() {
  return static_cast<int>(number_from("SIMM_TEST_GPUS", 1));
}

// Of the faults that are set now, the one at that point; empty: none.
std::string fault_code(const std::string& point) {
  const char* const path = std::getenv("SIMM_TEST_GPU_FAULTS");
  if (path == nullptr) return {};
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(point + "=", 0) == 0) return line.substr(point.size() + 1);
  }
  return {};
}

// Each device has access to memory of the others.
bool devices_meet() {
  return number_from("SIMM_TEST_GPU_PEERS", 1) != 0;
}

Result fault_at(const std::string& point) {
  constexpr unsigned kLookUs = 1000;
  std::string code = fault_code(point);
  while (code == "hang") ::pause();
  while (code == "wait") {
    ::usleep(kLookUs);
    code = fault_code(point);
  }
  return code.empty() ? kSuccess : std::atoi(code.c_str());
}

// Waits until one more copy may be done.
void await_permit() {
  constexpr unsigned kLookUs = 1000;
  static std::mutex mutex;
  static std::string last;
  static std::uint64_t done = 0;
  for (;; ::usleep(kLookUs)) {
    const std::string most = fault_code("copies");
    const std::lock_guard lock(mutex);
    if (std::exchange(last, most) != most) done = 0;
    if (!most.empty() && done >= std::stoull(most)) continue;
    ++done;
    return;
  }
}

// What goes wrong with a copy, when it is its turn.
Result copy_fault() {
  await_permit();
  const std::string slow = fault_code("slow");
  if (!slow.empty()) ::usleep(static_cast<useconds_t>(std::atoi(slow.c_str())));
  return fault_at("copy");
}

std::size_t memory_bytes() {
  std::size_t bytes = std::size_t{1} << 40;
  const char* const path = std::getenv("SIMM_TEST_GPU_FAULTS");
  if (path == nullptr) return bytes;
  std::ifstream file(path);
  const std::string name = "memory=";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) == 0) bytes = std::stoull(line.substr(name.size()));
  }
  return bytes;
}

std::atomic<Result> sticky{kSuccess};
thread_local Context current = nullptr;
thread_local std::vector<Context> contexts;  // below the current one

DeviceMemory& memory() {
  return DeviceMemory::of_process();
}

std::mutex streams_mutex;
std::vector<StreamType*> streams;

StreamType* make_stream() {
  const std::lock_guard lock(streams_mutex);
  streams.push_back(new StreamType(number_from("SIMM_TEST_GPU_SEED", 1) + streams.size()));
  return streams.back();
}
std::vector<StreamType*> all_streams() {
  const std::lock_guard lock(streams_mutex);
  return streams;
}

// Of the legacy default stream.
StreamType& default_stream() {
  static StreamType* const stream = make_stream();
  return *stream;
}
DeviceStream& stream_of(Stream stream) {
  const bool is_default = stream == nullptr || stream == legacy_stream();
  return (is_default ? default_stream() : *stream).stream;
}

struct HostRanges {
  std::mutex mutex;
  std::set<std::pair<std::uintptr_t, std::size_t>> ranges;
};
HostRanges& host_ranges() {
  static auto* const ranges = new HostRanges;
  return *ranges;
}

// A copy that lies in two registered ranges fails, and one that lies in none does not.
bool crosses_registration(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = begin + bytes;
  HostRanges& all = host_ranges();
  const std::lock_guard lock(all.mutex);
  for (const auto& [first, length] : all.ranges) {
    const bool meets = begin < first + length && first < end;
    if (meets && (begin < first || end > first + length)) return true;
  }
  return false;
}

Result copy(DevicePointer device, const void* from, void* to, std::size_t bytes, Stream stream) {
  if (current == nullptr) return kNotInitialized;
  if (sticky != kSuccess) return sticky;
  if (crosses_registration(from != nullptr ? from : to, bytes)) return kInvalidValue;
  if (memory().find(device, bytes) == nullptr) return kInvalidValue;
  stream_of(stream).queue([=] {
    if (const Result fault = copy_fault(); fault != kSuccess) {
      sticky = fault;
      return;
    }
    std::byte* const at = memory().find(device, bytes);
    if (at == nullptr) {  // unmapped meanwhile: a fault of the device
      sticky = kIllegalAddress;
      return;
    }
    if (from != nullptr) std::memcpy(at, from, bytes);
    if (to != nullptr) std::memcpy(to, at, bytes);
  });
  return kSuccess;
}

// A device zeroes its memory at its own speed, 64 MiB in less than 0.1 ms. The CPU would need a
// hundred milliseconds for pages that it sees for the first time: the file gets a hole instead.
void fill_memory(std::byte* at, unsigned char value, std::size_t bytes) {
  constexpr std::size_t kPageBytes = 4096;
  if (value == 0 && bytes % kPageBytes == 0 && ::madvise(at, bytes, MADV_REMOVE) == 0) return;
  std::memset(at, value, bytes);
}

// A piece of work within the device: on [at, at + bytes), and where it is not 0 on those of `from`.
Result work_on_device(DevicePointer at, DevicePointer from, std::size_t bytes, unsigned char value,
                      Stream stream) {
  if (current == nullptr) return kNotInitialized;
  if (sticky != kSuccess) return sticky;
  if (memory().find(at, bytes) == nullptr) return kInvalidValue;
  if (from != 0 && memory().find(from, bytes) == nullptr) return kInvalidValue;
  stream_of(stream).queue([=] {
    if (const Result fault = copy_fault(); fault != kSuccess) {
      sticky = fault;
      return;
    }
    std::byte* const to = memory().find(at, bytes);
    const std::byte* const source = from == 0 ? to : memory().find(from, bytes);
    if (to == nullptr || source == nullptr) {  // unmapped meanwhile: a fault of the device
      sticky = kIllegalAddress;
      return;
    }
    if (from == 0) return fill_memory(to, value, bytes);
    std::memcpy(to, source, bytes);
  });
  return kSuccess;
}

}  // namespace
}  // namespace testing
}  // namespace simm::cuda

using namespace simm::cuda;
using namespace simm::cuda::testing;

extern "C" {

Result cuInit(unsigned) {
  return fault_at("init");
}
Result cuGetErrorName(Result result, const char** name) {
  switch (result) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return kSuccess;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return kSuccess;
    case kIllegalAddress:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
Result cuDeviceGetCount(int* count) {
  *count = device_count();
  return kSuccess;
}
Result cuDeviceGet(Device* device, int ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return kInvalidValue;
  *device = ordinal;
  return kSuccess;
}
Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  std::memset(uuid->bytes, 0xa0, sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<unsigned char>(device);
  return kSuccess;
}
Result cuDeviceGetName(char* name, int bytes, Device device) {
  if (bytes <= 0) return kInvalidValue;
  const std::string own = "GPU " + std::to_string(device) + " of the tests";
  name[own.copy(name, static_cast<std::size_t>(bytes) - 1)] = '\0';
  return kSuccess;
}
Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = attribute == kDevicePosixDescriptors
               ? static_cast<int>(number_from("SIMM_TEST_GPU_DESCRIPTORS", 1))
               : 1;
  return kSuccess;
}
Result cuDeviceCanAccessPeer(int* can, Device, Device) {
  *can = devices_meet() ? 1 : 0;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(Context* context, Device) {
  static ContextType primary;
  *context = &primary;
  return kSuccess;
}
Result cuCtxSetCurrent(Context context) {
  current = context;
  return kSuccess;
}
Result cuCtxPushCurrent_v2(Context context) {
  contexts.push_back(current);
  current = context;
  return kSuccess;
}
Result cuCtxPopCurrent_v2(Context* context) {
  if (contexts.empty()) return kInvalidValue;
  *context = current;
  current = contexts.back();
  contexts.pop_back();
  return kSuccess;
}
Result cuCtxSynchronize() {
  if (current == nullptr) return kNotInitialized;
  for (StreamType* const stream : all_streams()) stream->stream.wait_for(stream->stream.last());
  return sticky;
}
Result cuPointerGetAttribute(void* value, int attribute, DevicePointer address) {
  const DeviceMemory::Facts facts = memory().facts(address);
  if (facts.bytes == 0) return kInvalidValue;
  switch (attribute) {
    case kPointerContext:
      return cuDevicePrimaryCtxRetain(static_cast<Context*>(value), facts.device);
    case kPointerMemoryType:
      *static_cast<unsigned*>(value) = kMemoryTypeDevice;
      return kSuccess;
    case kPointerIsManaged:
      *static_cast<unsigned*>(value) = 0;
      return kSuccess;
    case kPointerDeviceOrdinal:
      *static_cast<int*>(value) = facts.device;
      return kSuccess;
    case kPointerIsLegacyIpcCapable:
      *static_cast<bool*>(value) = facts.is_legacy;
      return kSuccess;
    case kPointerAllowedHandleTypes:
      *static_cast<std::uint64_t*>(value) = static_cast<std::uint64_t>(facts.handle_types);
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
Result cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* bytes, DevicePointer address) {
  const DeviceMemory::Facts facts = memory().facts(address);
  if (facts.bytes == 0) return kInvalidValue;
  *base = facts.base;
  *bytes = facts.bytes;
  return kSuccess;
}
Result cuMemCreate(AllocationHandle* handle, std::size_t bytes, const AllocationProperties* wanted,
                   unsigned long long) {
  if (const Result fault = fault_at("create"); fault != kSuccess) return fault;
  return memory().create(*handle, bytes, *wanted);
}
Result cuMemRelease(AllocationHandle handle) {
  return memory().release(handle);
}
Result cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  return memory().retain(*handle, reinterpret_cast<DevicePointer>(address));
}
Result cuMemExportToShareableHandle(void* descriptor, AllocationHandle handle, int,
                                    unsigned long long) {
  return memory().export_descriptor(*static_cast<int*>(descriptor), handle);
}
Result cuMemImportFromShareableHandle(AllocationHandle* handle, void* descriptor, int) {
  if (const Result fault = fault_at("import"); fault != kSuccess) return fault;
  return memory().import_descriptor(*handle,
                                    static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)));
}
Result cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties,
                                              AllocationHandle handle) {
  return memory().properties(*properties, handle);
}
Result cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties*, int) {
  *bytes = kGranularityBytes;
  return kSuccess;
}
Result cuMemAddressReserve(DevicePointer* address, std::size_t bytes, std::size_t, DevicePointer,
                           unsigned long long) {
  return memory().reserve(*address, bytes);
}
Result cuMemAddressFree(DevicePointer address, std::size_t bytes) {
  return memory().free_range(address, bytes);
}
Result cuMemMap(DevicePointer address, std::size_t bytes, std::size_t, AllocationHandle handle,
                unsigned long long) {
  return memory().map(address, bytes, handle);
}
Result cuMemUnmap(DevicePointer address, std::size_t bytes) {
  return memory().unmap(address, bytes);
}
Result cuMemSetAccess(DevicePointer address, std::size_t bytes, const AccessDescription* access,
                      std::size_t count) {
  if (count != 1) return kInvalidValue;
  return memory().set_access(address, bytes, *access, devices_meet());
}
Result cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned) {
  if (const Result fault = fault_at("register"); fault != kSuccess) return fault;
  if (crosses_registration(address, bytes)) return kHostMemoryAlreadyRegistered;
  HostRanges& all = host_ranges();
  const std::lock_guard lock(all.mutex);
  const bool is_new = all.ranges.emplace(reinterpret_cast<std::uintptr_t>(address), bytes).second;
  return is_new ? kSuccess : kHostMemoryAlreadyRegistered;
}
Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
  return copy(to, from, nullptr, bytes, stream);
}
Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, Stream stream) {
  return copy(from, nullptr, to, bytes, stream);
}
Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes,
                            Stream stream) {
  return from == 0 ? kInvalidValue : work_on_device(to, from, bytes, 0, stream);
}
Result cuMemsetD8Async(DevicePointer at, unsigned char value, std::size_t bytes, Stream stream) {
  return work_on_device(at, 0, bytes, value, stream);
}
Result cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* bytes) {
  if (current == nullptr) return kNotInitialized;
  *bytes = memory_bytes();
  *free_bytes = *bytes - std::min(*bytes, memory().created_bytes());
  return kSuccess;
}
Result cuStreamCreate(Stream* stream, unsigned) {
  *stream = make_stream();
  return kSuccess;
}
Result cuStreamSynchronize(Stream stream) {
  DeviceStream& own = stream_of(stream);
  own.wait_for(own.last());
  return sticky;
}
Result cuEventCreate(Event* event, unsigned) {
  if (const Result fault = fault_at("event"); fault != kSuccess) return fault;
  *event = new EventType;
  return kSuccess;
}
Result cuEventRecord(Event event, Stream stream) {
  event->stream = &stream_of(stream);
  event->piece = event->stream->queue([] {});
  return kSuccess;
}
Result cuEventQuery(Event event) {
  if (const Result fault = fault_at("query"); fault != kSuccess) return fault;
  if (sticky != kSuccess) return sticky;
  return event->stream == nullptr || event->stream->is_done(event->piece) ? kSuccess : kNotReady;
}
Result cuEventDestroy_v2(Event event) {
  delete event;
  return kSuccess;
}
Result cuMemAlloc_v2(DevicePointer* address, std::size_t bytes) {
  if (const Result fault = fault_at("create"); fault != kSuccess) return fault;
  return memory().allocate(*address, bytes, 0);
}
Result cuMemFree_v2(DevicePointer address) {
  return memory().free(address);
}

}  // extern "C"
