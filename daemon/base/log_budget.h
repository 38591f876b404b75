// LogBudget: how many lines may be written, as a token bucket: a burst, and then so many a second.
// What did not fit is counted until somebody takes the count. Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "daemon/base/clock.h"

namespace simm::base {

class LogBudget {
public:
  // One word: the time at which the bucket was empty. Each line moves it ahead by its share of a
  // second, and it never lies more than a burst behind now. False: not now, and counted.
  bool admit(TimeNs now_ns, std::uint64_t burst, std::uint64_t lines_per_second) noexcept {
    const TimeNs ns_per_line = kNsPerSecond / lines_per_second;
    const TimeNs full_ns = burst * ns_per_line;
    const TimeNs now = now_ns + full_ns;  // so that subtraction stays positive
    TimeNs from = empty_ns_.load(std::memory_order_relaxed);
    while (true) {
      const TimeNs start = std::max(from, now - full_ns);
      if (now - start < ns_per_line) {
        left_out_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
      if (empty_ns_.compare_exchange_weak(from, start + ns_per_line, std::memory_order_relaxed)) {
        return true;
      }
    }
  }

  std::uint64_t take_left_out() noexcept {
    return left_out_.exchange(0, std::memory_order_relaxed);
  }

private:
  std::atomic<TimeNs> empty_ns_{0};
  std::atomic<std::uint64_t> left_out_{0};
};

}  // namespace simm::base
