// Agent: a unit of work that owns its mutable state alone. An AgentRunner calls do_work() in a loop
// and applies an idle strategy when it returns 0. `threading: shared` composes all agents into one
// loop, `dedicated` gives each a pinned thread: the same objects, the same code.
#pragma once

#include "daemon/base/clock.h"

namespace simm::base {

// "Nothing to wait for": see Agent::next_deadline_ns.
inline constexpr TimeNs kNoDeadline = ~TimeNs{0};

class Agent {
public:
  virtual ~Agent() = default;

  // Does a bounded amount of work and returns how many items it did; 0 lets the thread idle.
  // Never blocks, never throws.
  virtual int do_work() noexcept = 0;

  // The earliest time at which do_work() has to run even if nothing arrives (a timer).
  virtual TimeNs next_deadline_ns() const noexcept { return kNoDeadline; }

  // Short static name, for counters and thread names (at most 15 bytes).
  virtual const char* name() const noexcept = 0;
};

}  // namespace simm::base
