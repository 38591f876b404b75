// LocalInbox: which of the channels that end at one place have something for it, a bit each. So a
// turn visits the channels that were used, and not one for each agent there is.
//
// Whoever pushes marks afterwards; the receiver takes the marks before it looks into the channels.
// A mark that comes in between is there in the next turn, and what was pushed for it may have been
// taken already. Thread: mark() any, take() the receiver.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/base/limits.h"
#include "daemon/base/mailbox.h"

namespace simm::transport {

class LocalInbox {
public:
  static constexpr std::uint32_t kChannelsMax = 64;
  static_assert(base::kDataAgentsMax <= kChannelsMax);

  // SAFETY: channel < kChannelsMax, which the mesh has checked.
  void mark(std::uint32_t channel) noexcept {
    marks_.fetch_or(std::uint64_t{1} << channel, std::memory_order_seq_cst);
  }
  // Without a write where there is no mark: the line stays with all who look.
  [[nodiscard]] std::uint64_t take() noexcept {
    if (marks_.load(std::memory_order_acquire) == 0) return 0;
    return marks_.exchange(0, std::memory_order_seq_cst);
  }

private:
  alignas(base::kSeparate) std::atomic<std::uint64_t> marks_{0};
};

}  // namespace simm::transport
