// The tier in the memory of a GPU, asked for anything by several tenants while its size and the
// memory of the GPU change. A place lies in memory that the tier has mapped. A place that is filled
// holds what was filled in under that name, and a new one holds nothing of another tenant. In the
// end all memory is given back. The driver below does what it is told at once.
// Input: steps of eight bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "daemon/memory/gpu/gpu_tier.h"
#include "simm/check.h"

namespace {

using namespace simm;
using namespace simm::memory;

constexpr std::uint64_t kExtentBytes = 64 << 10;
constexpr std::uint64_t kCellBytes = 512;  // of which the model knows what is in it
constexpr std::size_t kCells = kExtentBytes / kCellBytes;

// What is in a cell: bytes of an object of a tenant; all zero: nothing.
struct Cell {
  std::uint64_t tenant = 0;
  std::uint64_t serial = 0;
  std::uint64_t at = 0;  // of the object
  bool operator==(const Cell&) const = default;
};

std::map<cuda::DevicePointer, std::vector<Cell>> mapped;
std::map<cuda::DevicePointer, std::uint64_t> reserved;
std::uint64_t handles = 0;
std::uint64_t events = 0;
std::size_t free_extents = 0;
// Of all tiers here, one after the other.
GpuTierCounts counts;
GpuNames names;
std::uint64_t order_under_way = 0;  // 0: none
bool is_refusing = false;           // no memory is made
bool is_copying = false;            // no event is over
std::uint64_t time_ns = 0;
cuda::DevicePointer next_address = kExtentBytes;

cuda::Driver driver_of_this_test() {
  cuda::Driver driver{};
  driver.memory_get_info = [](std::size_t* free_bytes, std::size_t* bytes) {
    *bytes = 64 * kExtentBytes;
    *free_bytes = free_extents * kExtentBytes;
    return cuda::kSuccess;
  };
  driver.memory_create = [](cuda::AllocationHandle* handle, std::size_t bytes,
                            const cuda::AllocationProperties* wanted, unsigned long long) {
    SIMM_CHECK(bytes == kExtentBytes && wanted->requested_handle_types == 0);
    if (is_refusing) return cuda::kOutOfMemory;
    *handle = ++handles;
    return cuda::kSuccess;
  };
  driver.memory_release = [](cuda::AllocationHandle) {
    SIMM_CHECK(handles-- > 0);
    return cuda::kSuccess;
  };
  driver.address_reserve = [](cuda::DevicePointer* address, std::size_t bytes, std::size_t,
                              cuda::DevicePointer, unsigned long long) {
    *address = next_address;
    next_address += 2 * bytes;
    reserved[*address] = bytes;
    return cuda::kSuccess;
  };
  driver.address_free = [](cuda::DevicePointer address, std::size_t bytes) {
    SIMM_CHECK(reserved.at(address) == bytes && mapped.count(address) == 0);
    reserved.erase(address);
    return cuda::kSuccess;
  };
  driver.memory_map = [](cuda::DevicePointer address, std::size_t bytes, std::size_t,
                         cuda::AllocationHandle, unsigned long long) {
    SIMM_CHECK(reserved.at(address) == bytes);
    SIMM_CHECK(mapped.emplace(address, std::vector<Cell>(kCells)).second);
    return cuda::kSuccess;
  };
  driver.memory_unmap = [](cuda::DevicePointer address, std::size_t) {
    SIMM_CHECK(!is_copying && mapped.erase(address) == 1);
    return cuda::kSuccess;
  };
  driver.memory_set_access = [](cuda::DevicePointer, std::size_t, const cuda::AccessDescription*,
                                std::size_t) { return cuda::kSuccess; };
  driver.fill = [](cuda::DevicePointer address, unsigned char value, std::size_t bytes,
                   cuda::Stream) {
    SIMM_CHECK(value == 0 && bytes == kExtentBytes);
    mapped.at(address).assign(kCells, {});
    return cuda::kSuccess;
  };
  driver.event_create = [](cuda::Event* event, unsigned) {
    // An extent begins to leave: the order that takes it is not done.
    SIMM_CHECK(order_under_way == 0 || counts.order_done < order_under_way);
    ++events;
    *event = reinterpret_cast<cuda::Event>(std::uintptr_t{1});
    return cuda::kSuccess;
  };
  driver.event_record = [](cuda::Event, cuda::Stream) { return cuda::kSuccess; };
  driver.event_query = [](cuda::Event) { return is_copying ? cuda::kNotReady : cuda::kSuccess; };
  driver.event_destroy = [](cuda::Event) {
    SIMM_CHECK(events-- > 0);
    return cuda::kSuccess;
  };
  return driver;
}

struct Step {
  std::uint8_t what;
  std::uint8_t tenant;
  std::uint8_t serial;
  std::uint8_t size;
  std::uint8_t extents;
  std::uint8_t reserve;
  std::uint8_t origin;
  std::uint8_t time;
};

void look_up(GpuTier& tier, const Step& step) {
  const std::uint64_t tenant = 1 + step.tenant % 4;
  // A tenant has names of its own, as in the pool.
  const ObjectPart part{step.origin % 8 == 0 ? 0u : 1u, tenant << 32 | step.serial, 0};
  const std::uint64_t bytes = (1 + std::uint64_t{step.size}) * kCellBytes;
  // For memory of another GPU: only what is there, and nobody fills anything in.
  const bool is_for_peer = step.origin % 4 == 1;
  const bool takes_in = step.extents % 4 != 0;
  const GpuTier::Place place = is_for_peer ? tier.find_for_peer(part, bytes, tenant)
                                           : tier.find(part, bytes, tenant, takes_in);
  if (place.address == 0) return;
  SIMM_CHECK(part.origin != 0 && (place.is_filled || !is_for_peer));
  auto extent = mapped.upper_bound(place.address);
  SIMM_CHECK(extent != mapped.begin());
  --extent;
  const std::uint64_t first = (place.address - extent->first) / kCellBytes;
  SIMM_CHECK(first < kCells && bytes / kCellBytes <= kCells - first);
  for (std::uint64_t i = 0; i < bytes / kCellBytes; ++i) {
    Cell& cell = extent->second[first + i];
    const Cell wanted{tenant, part.serial, i};
    SIMM_CHECK(place.is_filled ? cell == wanted : cell.tenant == 0 || cell.tenant == tenant);
    cell = wanted;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const cuda::Driver driver = driver_of_this_test();
  free_extents = 64;
  is_refusing = is_copying = false;
  time_ns = 0;
  for (auto* number : {&counts.bytes, &counts.used_bytes, &counts.pieces, &counts.order_done}) {
    *number = 0;
  }
  GpuTierConfig config;
  config.extent_bytes = kExtentBytes;
  config.piece_bytes_min = 4 * kCellBytes;
  config.evictions_max = 8;
  GpuTier tier(
      driver, 0, nullptr, counts, names, [] { return time_ns; }, config);
  std::uint64_t order = 0;
  for (; size >= sizeof(Step); data += sizeof(Step), size -= sizeof(Step)) {
    Step step;
    std::memcpy(&step, data, sizeof step);
    time_ns += std::uint64_t{step.time} << 20;
    if (step.what < 32) {
      order_under_way = ++order;
      tier.resize(step.extents % 8 * kExtentBytes, step.reserve % 4 * kExtentBytes, order);
      order_under_way = 0;
    } else if (step.what < 64) {
      free_extents = step.extents % 16;
      is_refusing = step.reserve % 4 == 0;
      is_copying = step.size % 2 == 0;
    } else if (step.what < 96) {
      SIMM_CHECK(tier.do_work());
    } else {
      look_up(tier, step);
    }
    SIMM_CHECK(tier.audit() == nullptr);
    SIMM_CHECK(counts.bytes == mapped.size() * kExtentBytes && handles == 0);
    // An order is done when nothing waits to be given back, and not before.
    SIMM_CHECK(counts.order_done <= order);
    SIMM_CHECK(tier.is_giving_back() || counts.order_done == order);
  }
  is_copying = false;
  tier.resize(0, 0);
  while (tier.is_giving_back()) SIMM_CHECK(tier.do_work());
  SIMM_CHECK(mapped.empty() && reserved.empty() && events == 0);
  SIMM_CHECK(counts.bytes == 0 && counts.used_bytes == 0);
  for (const std::atomic<std::uint64_t>& cell : names.cells) SIMM_CHECK(cell == 0);
  next_address = kExtentBytes;
  return 0;
}
