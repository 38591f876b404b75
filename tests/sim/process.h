// Process: when a simulated process gets its turns. It is woken by what arrives and by its own next
// deadline; between two turns some virtual time passes. A paused process (SIGSTOP) gets none.
// Thread: the one simulated thread.
#pragma once

#include <functional>
#include <memory>

#include "daemon/base/agent.h"
#include "tests/sim/dice.h"
#include "tests/sim/event_loop.h"

namespace simm::sim {

class Process {
public:
  // `turn` returns how much it did; `deadline` is on the process's own clock.
  Process(EventLoop& loop, Dice& dice, const ProcessClock& clock, std::function<int()> turn,
          std::function<base::TimeNs()> deadline)
      : loop_(loop),
        dice_(dice),
        clock_(clock),
        turn_(std::move(turn)),
        deadline_(std::move(deadline)) {}

  void wake() { schedule(loop_.now_ns() + dice_.skewed(100, 4 * kUs)); }
  void pause() {
    paused_ = true;
    paused_at_ns_ = loop_.now_ns();
  }
  void resume() {
    stood_ns_ = stood_ns();
    paused_ = false;
    wake();
  }
  [[nodiscard]] bool paused() const { return paused_; }
  // How long it has been paused, all pauses together.
  [[nodiscard]] base::TimeNs stood_ns() const {
    return stood_ns_ + (paused_ ? loop_.now_ns() - paused_at_ns_ : 0);
  }

private:
  void schedule(base::TimeNs at_ns) {
    if (next_ns_ <= at_ns) return;
    next_ns_ = at_ns;
    // The event may outlive the process.
    loop_.at(at_ns, [this, at_ns, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired() && next_ns_ == at_ns) step();
    });
  }

  void step() {
    next_ns_ = base::kNoDeadline;
    if (paused_) return;
    if (turn_() > 0) return wake();
    const base::TimeNs deadline_ns = deadline_();
    if (deadline_ns == base::kNoDeadline) return;
    const base::TimeNs at_ns = deadline_ns - std::min(deadline_ns, clock_.ahead_ns());
    schedule(std::max(at_ns, loop_.now_ns() + 1 * kUs));
  }

  EventLoop& loop_;
  Dice& dice_;
  const ProcessClock& clock_;
  std::function<int()> turn_;
  std::function<base::TimeNs()> deadline_;
  base::TimeNs next_ns_ = base::kNoDeadline;
  bool paused_ = false;
  base::TimeNs paused_at_ns_ = 0;
  base::TimeNs stood_ns_ = 0;  // in pauses that are over
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
