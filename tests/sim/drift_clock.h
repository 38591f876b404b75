// DriftClock: the monotonic clock of a control thread in the simulation: another origin and another
// speed than everybody else's, so that nothing that has to hold can lean on clocks (P7).
// Thread: the one simulated thread.
#pragma once

#include "tests/sim/dice.h"
#include "tests/sim/event_loop.h"

namespace simm::sim {

class DriftClock final : public base::Clock {
public:
  // From half to double speed.
  DriftClock(const EventLoop& loop, Dice& dice)
      : loop_(loop),
        started_ns_(loop.now_ns()),
        origin_ns_(dice.between(1, 500) * kSecond),
        percent_(dice.percent(40) ? 100 : dice.between(50, 200)) {}

  [[nodiscard]] base::TimeNs now_ns() const noexcept override {
    return origin_ns_ + (loop_.now_ns() - started_ns_) * percent_ / 100;
  }
  // When, on the loop, this clock shows `at_ns`; not before now.
  [[nodiscard]] base::TimeNs loop_ns(base::TimeNs at_ns) const noexcept {
    const base::TimeNs left_ns = at_ns - std::min(at_ns, now_ns());
    return loop_.now_ns() + (left_ns * 100 + percent_ - 1) / percent_;
  }

private:
  const EventLoop& loop_;
  base::TimeNs started_ns_;
  base::TimeNs origin_ns_;
  std::uint64_t percent_;
};

}  // namespace simm::sim
