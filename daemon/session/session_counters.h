// What the sessions of one data agent count. Names are "<prefix>.<counter>", for instance
// "session.0.submissions" and "session.0.poisoned.ring_cursor".
// Thread: written by the data agent of the sessions.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counters.h"
#include "daemon/base/histogram.h"
#include "ipc/layout.h"

namespace simm::session {

// Dotted-name form of a reason, "unknown" for a value outside the set. Static storage.
std::string_view poison_reason_name(ipc::PoisonReason reason) noexcept;

struct SessionCounters {
  SessionCounters() = default;  // counts into unread cells
  SessionCounters(base::CounterSet& set, std::string_view prefix);

  base::Counter attached;  // sessions now
  base::Counter resting;   // of these, in no round until their clients ring
  base::Counter submissions;
  base::Counter pages;
  base::Counter completions;
  base::Counter wakes_futex;
  base::Counter wakes_bell;
  base::Counter held_operations;  // had to wait: the tenant's or the engine's operations
  base::Counter held_bytes;       // had to wait: the tenant's bytes under way
  base::Counter held_timeouts;    // their deadline passed while they waited
  base::Counter absent_pages;  // refused: their memory is absent, and the touch budget is used up
  base::Counter turn_entries_max;  // most entries taken in one turn, all tenants
  base::Counter entries_max;       // most entries of one tenant in one turn
  std::array<base::Counter, ipc::kPoisonReasonCount> poisoned;

  // Stages of a submission.
  base::Histogram validate_stage_ns;  // of one in kValidationsTimedOneIn: copied and checked
  base::Histogram queue_stage_ns;     // of all that had to wait for a limit: until they went on
};

}  // namespace simm::session
