// RealClock: the Clock of a running daemon, CLOCK_MONOTONIC (a vDSO call, about 20 ns).
// Thread: any.
#pragma once

#include <ctime>

#include "daemon/base/clock.h"

namespace simm::base {

class RealClock final : public Clock {
public:
  TimeNs now_ns() const noexcept override {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<TimeNs>(now.tv_sec) * kNsPerSecond + static_cast<TimeNs>(now.tv_nsec);
  }
};

}  // namespace simm::base
