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

  // Announced sleep: the runner calls prepare_sleep() on its agents, then do_work() once more. It
  // sleeps only when every answer was true and no work was found. Afterwards, also when it did not
  // sleep, it calls cancel_sleep(). An agent that others wake through shared memory asks there to
  // be woken, and looks once more, in prepare_sleep(). It takes that back in cancel_sleep(). False:
  // there is something to do. Mailboxes need nothing here.
  virtual bool prepare_sleep() noexcept { return true; }
  virtual void cancel_sleep() noexcept {}

  // The last call: its thread stops. Here an agent gives back what only this thread can.
  virtual void end() noexcept {}

  // Short static name, for counters and thread names (at most 15 bytes).
  virtual const char* name() const noexcept = 0;
};

}  // namespace simm::base
