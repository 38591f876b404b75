// Staging: memory of a lane that the daemon shares, through which libclient copies the bytes of
// staged regions. A lane asks for it at its first staged page, and whoever has the page waits
// inside the deadline of the call, holding nothing up. The lane gives it up with the session: when
// a daemon stops in the middle of a transfer, only this memory is within its reach. Owned by its
// lane. Thread: the one that borrowed the lane.
#pragma once

#include <cstdint>
#include <utility>

#include "ipc/fd.h"
#include "ipc/layout.h"
#include "ipc/mapping.h"
#include "libclient/range_ring.h"

namespace simm::detail {

class Staging {
public:
  Staging() noexcept : ring_(0) {}
  Staging(ipc::Mapping memory, ipc::RegionHandle handle) noexcept
      : memory_(std::move(memory)), ring_(memory_.bytes()), handle_(handle) {}

  [[nodiscard]] std::uint64_t capacity() const noexcept { return ring_.capacity(); }
  [[nodiscard]] bool empty() const noexcept { return ring_.empty(); }
  [[nodiscard]] ipc::RegionHandle handle() const noexcept { return handle_; }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept {
    return memory_.data() + offset;
  }
  // Ranges start on cache lines. RangeRing::kNone when there is no room now.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes) noexcept {
    return ring_.allocate(rounded(bytes));
  }
  [[nodiscard]] std::uint64_t mark() const noexcept { return ring_.mark(); }
  void rollback(std::uint64_t mark) noexcept { ring_.rollback(mark); }
  void free_to(std::uint64_t mark) noexcept { ring_.free_to(mark); }
  // What a page of `bytes` takes of the capacity.
  [[nodiscard]] static constexpr std::uint64_t rounded(std::uint64_t bytes) noexcept {
    constexpr std::uint64_t kLine = 64;
    return (bytes + kLine - 1) / kLine * kLine;
  }

  // In a forked child, which has not got this memory.
  void forget() noexcept { memory_.forget(); }

private:
  ipc::Mapping memory_;
  RangeRing ring_;
  ipc::RegionHandle handle_ = ipc::kNoRegion;
};

// Staging memory that the daemon was asked to map and has not answered for yet.
struct StagingRequest {
  ipc::Mapping memory;
  ipc::UniqueFd file;
  std::uint64_t id = 0;  // of the posted request; 0: not sent yet
  std::uint64_t sent_ns = 0;
};

}  // namespace simm::detail
