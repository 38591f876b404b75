// Clock: the only source of time in the daemon. Seam: the real one reads CLOCK_MONOTONIC, the
// simulated one is advanced by the simulation. Wall-clock time never decides anything.
// Thread: any (implementations are immutable or belong to the single simulated thread).
#pragma once

#include <cstdint>

namespace simm::base {

using TimeNs = std::uint64_t;  // monotonic nanoseconds since an arbitrary origin; never 0 in use

inline constexpr TimeNs kNsPerMs = 1'000'000;
inline constexpr TimeNs kNsPerSecond = 1'000'000'000;

class Clock {
public:
  virtual ~Clock() = default;
  virtual TimeNs now_ns() const noexcept = 0;
  // For a clock that shares readings: one that was taken inside this very call.
  virtual TimeNs fresh_ns() const noexcept { return now_ns(); }
};

}  // namespace simm::base
