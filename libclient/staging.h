// Staging: memory of a lane that the daemon shares, through which libclient copies the bytes of
// staged regions. A lane makes it at its first staged page and gives it up with the session: when a
// daemon stops in the middle of a transfer, only this memory is within its reach.
// Owned by its lane. Thread: the one that borrowed the lane.
#pragma once

#include <cstdint>
#include <utility>

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

}  // namespace simm::detail
