// ManualClock: a Clock that stands still until it is told to move. For tests and the simulation.
// Thread: the one that runs the test.
#pragma once

#include "daemon/base/clock.h"
#include "simm/check.h"

namespace simm::base {

class ManualClock final : public Clock {
public:
  explicit ManualClock(TimeNs start_ns = kNsPerSecond) noexcept : now_ns_(start_ns) {}

  TimeNs now_ns() const noexcept override { return now_ns_; }
  void advance_ns(TimeNs by_ns) noexcept { now_ns_ += by_ns; }

  // Time never goes back: asking for it is a bug of the test.
  void set_ns(TimeNs now_ns) noexcept {
    SIMM_CHECK(now_ns >= now_ns_);
    now_ns_ = now_ns;
  }

private:
  TimeNs now_ns_;
};

}  // namespace simm::base
