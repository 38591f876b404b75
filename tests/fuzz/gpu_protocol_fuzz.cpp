// The way between the daemon and the helper of a GPU, both ends. Whatever bytes come: a job that
// passes lies inside the file and the arena; what a helper says is a status that there is and a
// printable text; and after any imports and releases the helper reaches what it has mapped, and
// nothing else. The driver below counts what is mapped.
// Input: a job, a reply, then controls.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "daemon/memory/gpu/gpu_imports.h"
#include "daemon/memory/gpu/gpu_protocol.h"
#include "simm/check.h"

namespace {

using namespace simm;
using namespace simm::memory;

constexpr std::uint64_t kArenaBytes = 64 << 20;
constexpr std::uint64_t kGranuleBytes = 2 << 20;
constexpr std::uint64_t kDeviceBytes = std::uint64_t{1} << 40;

// What the driver has given out: ranges of addresses, those of them that are mapped, and handles.
std::map<cuda::DevicePointer, std::uint64_t> reserved;
std::set<cuda::DevicePointer> mapped;
std::uint64_t handles = 0;
cuda::DevicePointer next_address = kGranuleBytes;

cuda::Driver driver_of_this_test() {
  cuda::Driver driver{};
  driver.get_error_name = [](cuda::Result, const char**) { return cuda::kInvalidValue; };
  driver.memory_get_granularity = [](std::size_t* bytes, const cuda::AllocationProperties*, int) {
    *bytes = kGranuleBytes;
    return cuda::kSuccess;
  };
  // Three GPUs: this one, one whose memory this one may reach, and one whose it may not.
  driver.device_get_count = [](int* count) {
    *count = 3;
    return cuda::kSuccess;
  };
  driver.device_get = [](cuda::Device* device, int ordinal) {
    *device = ordinal;
    return cuda::kSuccess;
  };
  driver.device_get_uuid = [](cuda::Uuid* uuid, cuda::Device device) {
    *uuid = {};
    uuid->bytes[0] = static_cast<unsigned char>(device);
    return cuda::kSuccess;
  };
  driver.device_can_access_peer = [](int* can, cuda::Device, cuda::Device peer) {
    *can = peer == 1 ? 1 : 0;
    return cuda::kSuccess;
  };
  // Descriptors: 0 is of nothing, 1 of the second GPU.
  driver.memory_import = [](cuda::AllocationHandle* handle, void* descriptor, int) {
    *handle = static_cast<cuda::AllocationHandle>(reinterpret_cast<std::intptr_t>(descriptor));
    if (*handle == 0) return cuda::kInvalidValue;
    ++handles;
    return cuda::kSuccess;
  };
  driver.memory_release = [](cuda::AllocationHandle) {
    SIMM_CHECK(handles-- > 0);
    return cuda::kSuccess;
  };
  driver.memory_get_properties = [](cuda::AllocationProperties* properties,
                                    cuda::AllocationHandle handle) {
    properties->location = {cuda::kLocationDevice, handle == 1 ? 1 : 0};
    return cuda::kSuccess;
  };
  driver.address_reserve = [](cuda::DevicePointer* address, std::size_t bytes, std::size_t,
                              cuda::DevicePointer, unsigned long long) {
    if (bytes > kDeviceBytes) return cuda::kOutOfMemory;
    *address = next_address;
    next_address += bytes;
    reserved[*address] = bytes;
    return cuda::kSuccess;
  };
  driver.address_free = [](cuda::DevicePointer address, std::size_t bytes) {
    SIMM_CHECK(reserved.at(address) == bytes && mapped.count(address) == 0);
    reserved.erase(address);
    return cuda::kSuccess;
  };
  // Allocations with an odd handle are one granule long, so a longer range is refused.
  driver.memory_map = [](cuda::DevicePointer address, std::size_t bytes, std::size_t,
                         cuda::AllocationHandle handle, unsigned long long) {
    if (handle % 2 == 1 && bytes != kGranuleBytes) return cuda::kInvalidValue;
    SIMM_CHECK(reserved.at(address) == bytes && mapped.insert(address).second);
    return cuda::kSuccess;
  };
  driver.memory_unmap = [](cuda::DevicePointer address, std::size_t bytes) {
    SIMM_CHECK(reserved.at(address) == bytes && mapped.erase(address) == 1);
    return cuda::kSuccess;
  };
  driver.memory_set_access = [](cuda::DevicePointer, std::size_t, const cuda::AccessDescription*,
                                std::size_t) { return cuda::kSuccess; };
  return driver;
}

struct Bytes {
  const std::uint8_t* data;
  std::size_t size;

  // False: there are no more.
  template <typename Value>
  bool take(Value& value) {
    if (size < sizeof value) return false;
    std::memcpy(&value, data, sizeof value);
    data += sizeof value;
    size -= sizeof value;
    return true;
  }
};

void check_job(const GpuJob& job, std::uint64_t arena_bytes) {
  if (!is_gpu_job_sound(job, arena_bytes)) return;
  SIMM_CHECK(job.slot < kGpuSlots && job.import < kGpuImportsMax && job.length > 0);
  if (has_gpu_bounce(job.slot)) {
    const std::uint64_t begin = kGpuHeaderBytes + job.slot * kReadBytesMax;
    SIMM_CHECK(begin + job.length <= kGpuFileBytes && job.length <= kReadBytesMax);
  } else {
    SIMM_CHECK(job.arena_offset <= arena_bytes && job.length <= arena_bytes - job.arena_offset);
  }
}

void check_reply(const GpuControlReply& reply) {
  const Outcome outcome = outcome_of(reply);
  SIMM_CHECK(is_known_status(static_cast<std::int32_t>(outcome.status())));
  const std::string text = text_of(reply);
  SIMM_CHECK(text.size() <= sizeof reply.text);
  for (const char c : text) SIMM_CHECK(c >= ' ' && c <= '~');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const cuda::Driver driver = driver_of_this_test();
  Bytes bytes{data, size};
  GpuJob job;
  GpuControlReply reply;
  if (!bytes.take(job) || !bytes.take(reply)) return 0;
  for (const std::uint64_t arena_bytes : {std::uint64_t{0}, kArenaBytes, ~std::uint64_t{0}}) {
    check_job(job, arena_bytes);
  }
  check_reply(reply);
  if (size % 2 == 0) job.import %= 4;

  GpuImports imports(driver, 0, {});
  std::map<std::uint32_t, std::uint64_t> known;  // what there is, and how long
  GpuControl control;
  while (bytes.take(control)) {
    // The lower bits choose: of any numbers hardly one would meet another one.
    const bool is_import = (static_cast<std::uint32_t>(control.op) & 1) == 0;
    const std::uint32_t number = size % 2 == 0 ? control.import % 4 : control.import;
    if (is_import) {
      const int descriptor = static_cast<int>(static_cast<std::uint32_t>(control.op) >> 1 & 7);
      GpuUuid home{};
      home[0] = control.home[0] % 4;  // the last one is not there
      const bool took =
          imports.import(number, descriptor, control.allocation_bytes, home).has_value();
      // Where the descriptor says, on a GPU that can be reached.
      SIMM_CHECK(!took || home[0] == (descriptor == 1 ? 1 : 0));
      SIMM_CHECK(!took || imports.is_of_peer(number) == (descriptor == 1));
      SIMM_CHECK(!took || known.emplace(number, control.allocation_bytes).second);
    } else {
      SIMM_CHECK(imports.release(number).has_value() == (known.erase(number) == 1));
    }
    const auto found = known.find(job.import);
    const cuda::DevicePointer address = imports.find(job.import, job.offset, job.length);
    const bool is_inside = found != known.end() && job.offset <= found->second &&
                           job.length <= found->second - job.offset;
    SIMM_CHECK((address != 0) == is_inside);
    if (is_inside) SIMM_CHECK(mapped.count(address - job.offset) == 1);
    SIMM_CHECK(mapped.size() == known.size() && reserved.size() == known.size() && handles == 0);
  }
  for (const auto& [number, length] : known) SIMM_CHECK(imports.release(number).has_value());
  SIMM_CHECK(reserved.empty());
  next_address = kGranuleBytes;
  return 0;
}
