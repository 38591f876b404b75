// Presence: sees to it that the memory of a call is there before the daemon uses it. The
// caller faults in absent pages here, within the deadline of its call. Otherwise the daemon would
// wait for them on behalf of all clients.
// Owned by a LaneDriver. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

#include "libclient/lane.h"
#include "libclient/region_table.h"

namespace simm::detail {

class Presence {
public:
  explicit Presence(RegionTable& regions) noexcept : regions_(regions) {}

  // All that the run is about to use, before the caller takes locks that others wait for. What
  // could not be done is seen to page by page.
  void make(const BatchRun& run) noexcept;
  // One page, `length` bytes from where its slot begins. timeout: not by the deadline. `has_waited`
  // is set when that took some time.
  Status make(const BatchRun& run, const PageSlot& slot, std::uint64_t length,
              bool& has_waited) noexcept;

  // Of views whose memory was faulted in here.
  [[nodiscard]] std::uint64_t made_bytes() const noexcept {
    return made_bytes_.load(std::memory_order_relaxed);
  }

private:
  RegionTable& regions_;
  std::atomic<std::uint64_t> made_bytes_{0};
};

}  // namespace simm::detail
