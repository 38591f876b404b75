// RegisteredRange: memory that a ChunkRegistrar registers with NICs: a client's region, the pool's
// arena, the memory of shared reads. Destroying it is the end of all its registrations: it returns
// when no NIC knows the memory any more, and whoever does it has made sure that nothing uses it.
// Owned by what owns the memory, and goes before it. Thread: chunks() any data agent; destroyed on
// control/registrar, while the registrar lives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/memory/region.h"
#include "daemon/memory/region_keys.h"
#include "daemon/memory/region_pages.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/registration/chunk_table.h"

namespace simm::transport {

class ChunkRegistrar;

// A bit for each rail.
using RailSet = std::uint32_t;
static_assert(kRailsMax <= 32);

struct RangeSpec {
  MemoryRange memory;  // a dma-buf's descriptor stays open as long as the range
  RemoteAccess access = RemoteAccess::none;
  RailSet background = 0;  // with these it is registered without being asked, first byte first
  // Of a client's region: which of its pages exist; it outlives the range. Null: all, or it may
  // make them.
  memory::RegionPages* pages = nullptr;
};

class RegisteredRange final : public memory::RegionKeys {
public:
  ~RegisteredRange() override;

  [[nodiscard]] ChunkTable& chunks() noexcept { return chunks_; }

private:
  friend class ChunkRegistrar;
  // Bytes of the range with one rail.
  struct RailBytes {
    std::uint64_t wanted = 0;  // in the background, or on demand
    std::uint64_t registered = 0;
    std::uint64_t failed = 0;
    std::uint64_t registrations = 0;
    std::uint64_t on_demand = 0;
  };

  RegisteredRange(ChunkRegistrar& registrar, const RangeSpec& spec, std::uint32_t rails,
                  WorkBell& bell)
      : registrar_(registrar), spec_(spec), chunks_(spec.memory.bytes, rails, bell) {}

  ChunkRegistrar& registrar_;
  const RangeSpec spec_;
  ChunkTable chunks_;

  // All under the registrar's lock.
  std::array<std::vector<std::unique_ptr<Registration>>, kRailsMax> registrations_;  // by rail
  std::array<RailBytes, kRailsMax> rails_{};
  // Cells are counted as chunk * rails + rail.
  std::deque<std::uint64_t> asked_;              // by agents, oldest first
  std::uint64_t next_cell_ = 0;                  // of the background, there rail * chunks + chunk
  std::map<std::uint64_t, base::TimeNs> again_;  // failed cells, and when they may be tried again
  base::TimeNs look_at_ns_ = base::kNoDeadline;  // when a wish for a failed cell is to be looked at
  std::uint32_t under_way_ = 0;
};

// The chunks of a client's region; null: no NIC knows it.
inline ChunkTable* chunks_of(const memory::Region& region) noexcept {
  if (region.keys == nullptr) return nullptr;
  // SAFETY: a daemon has one implementation of RegionAttach, RegionNics, whose keys are these.
  return &static_cast<RegisteredRange*>(region.keys)->chunks();
}

}  // namespace simm::transport
