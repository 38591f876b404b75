// Troubles: since when a simulated process has given others reason to do without it: dead, paused,
// cut off from the manager, or draining. Thread: the one simulated thread.
#pragma once

#include <map>

#include "tests/sim/event_loop.h"
#include "tests/sim/map_book.h"

namespace simm::sim {

class Troubles {
public:
  explicit Troubles(const EventLoop& loop) : loop_(loop) {}

  // Troubles that follow each other closely are one: it has to find its way back in between.
  void begin(Serial serial) {
    Trouble& trouble = troubles_[serial];
    const bool goes_on = trouble.count > 0 || loop_.now_ns() - trouble.ended_ns < kWayBackNs;
    if (!goes_on) trouble.began_ns = loop_.now_ns();
    ++trouble.count;
  }
  void end(Serial serial) {
    Trouble& trouble = troubles_[serial];
    if (trouble.count > 0 && --trouble.count == 0) trouble.ended_ns = loop_.now_ns();
  }
  // It wants to lose its slots, or is meant to be replaced.
  void give_up(Serial serial) { troubles_[serial].gave_up = true; }

  // By a clock that runs at up to twice the speed it has been in trouble for so long.
  [[nodiscard]] bool may_lose_slots(Serial serial, base::TimeNs after_ns) const {
    const auto found = troubles_.find(serial);
    if (found == troubles_.end()) return false;
    const Trouble& trouble = found->second;
    const bool troubled = trouble.count > 0 || loop_.now_ns() - trouble.ended_ns < kWayBackNs;
    return trouble.gave_up || (troubled && loop_.now_ns() - trouble.began_ns >= after_ns / 2);
  }

private:
  // To dial, to join, and to be heard, by clocks of half the speed.
  static constexpr base::TimeNs kWayBackNs = 500 * kMs;

  struct Trouble {
    int count = 0;  // at the same time
    base::TimeNs began_ns = 0;
    base::TimeNs ended_ns = 0;
    bool gave_up = false;
  };

  const EventLoop& loop_;
  std::map<Serial, Trouble> troubles_;
};

}  // namespace simm::sim
