// PathTrials: what a daemon has learnt of the path from one of its RDMA ports to a peer. Rails that
// look alike may be fabrics of their own, and what is sent into a wrong one is swallowed. So after
// a silence another place of the peer is asked for; when each was tried, the port is left alone
// with that peer for a while.
// A member of a QueuePairLinks::Link. Thread: control.
#pragma once

#include <algorithm>
#include <cstddef>

#include "daemon/base/clock.h"
#include "daemon/transport/link_loss.h"

namespace simm::control {

class PathTrials {
public:
  // A link over it has ended. `was_heard`: something came from the other end.
  void on_ended(transport::LinkLoss cause, bool was_heard) noexcept {
    const bool is_silent = cause == transport::LinkLoss::silent;
    if (is_silent) ++silences_;
    if (was_heard) unheard_ = 0;
    if (is_silent && !was_heard) ++unheard_;
  }
  // How many places of the peer to pass by, counted from the one like this port's own.
  [[nodiscard]] std::size_t places_passed() const noexcept { return silences_; }
  // How long the port is left alone: `first_ns`, and twice as long after each further trial. 0: it
  // is tried at once. `ports`: of this daemon; the peer has about as many.
  [[nodiscard]] base::TimeNs pause_ns(std::size_t ports, base::TimeNs first_ns) const noexcept {
    const std::size_t trials = std::max(kTrialsMin, ports);
    if (unheard_ < trials) return 0;
    return first_ns << std::min(unheard_ - trials, kDoublingsMax);
  }

private:
  static constexpr std::size_t kTrialsMin = 2;
  static constexpr std::size_t kDoublingsMax = 5;

  std::size_t silences_ = 0;
  std::size_t unheard_ = 0;  // in a row, from the first moment on
};

}  // namespace simm::control
