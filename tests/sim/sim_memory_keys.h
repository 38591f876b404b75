// SimMemoryKeys: what the devices of a simulated process know of memory: of a server its arena, of
// a node the pages of its clients. A rail may know pages later than others.
// Owned by an end of the transport over RDMA. Thread: the one simulated thread.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/registration/memory_keys.h"
#include "simm/check.h"

namespace simm::sim {

class SimMemoryKeys final : public transport::MemoryKeys {
public:
  void add(std::uint16_t rail, transport::RdmaDevice& device, std::span<std::byte> memory,
           transport::RemoteAccess access) {
    auto made = device.register_memory({memory.data(), memory.size(), -1, 0}, access);
    SIMM_CHECK(made.has_value());
    ranges_.push_back({rail, memory, std::move(*made)});
  }

  std::size_t local(
      std::uint16_t rail, std::byte* at, std::uint64_t bytes,
      std::span<transport::LocalPart, transport::Work::kPartsMax> parts) const noexcept override {
    const Range* const range = find(rail, at, bytes);
    if (range == nullptr) return 0;
    parts[0] = {at, static_cast<std::uint32_t>(bytes), range->registration->local_key};
    return 1;
  }
  std::size_t remote(std::uint16_t rail, const memory::Slice& slice,
                     std::span<transport::wire::RemoteTarget, transport::wire::kTargetsOfPageMax>
                         targets) const noexcept override {
    // SAFETY: a slice lies inside its region: its factory proved it.
    const std::byte* const at = slice.region->base + slice.offset;
    const Range* const range = find(rail, at, slice.length);
    if (range == nullptr) return 0;
    const auto offset = static_cast<std::uint64_t>(at - range->memory.data());
    targets[0] = {range->registration->remote_address + offset, slice.length,
                  range->registration->remote_key, 0};
    return 1;
  }
  transport::KeysFound look(std::uint16_t rail,
                            const memory::Slice& slice) const noexcept override {
    // SAFETY: as above.
    const std::byte* const at = slice.region->base + slice.offset;
    return find(rail, at, slice.length) != nullptr ? transport::KeysFound::all
                                                   : transport::KeysFound::later;
  }

private:
  struct Range {
    std::uint16_t rail = 0;
    std::span<std::byte> memory;
    std::unique_ptr<transport::Registration> registration;
  };
  [[nodiscard]] const Range* find(std::uint16_t rail, const std::byte* at,
                                  std::uint64_t bytes) const noexcept {
    const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
      const std::byte* const end = range.memory.data() + range.memory.size();
      return range.rail == rail && at >= range.memory.data() && at <= end &&
             bytes <= static_cast<std::uint64_t>(end - at);
    });
    return found == ranges_.end() ? nullptr : &*found;
  }

  std::vector<Range> ranges_;
};

}  // namespace simm::sim
