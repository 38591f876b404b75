#include "daemon/session/session_counters.h"

#include <string>

namespace simm::session {

std::string_view poison_reason_name(ipc::PoisonReason reason) noexcept {
  using ipc::PoisonReason;
  switch (reason) {
    case PoisonReason::none:
      return "none";
    case PoisonReason::ring_cursor:
      return "ring_cursor";
    case PoisonReason::completion_overflow:
      return "completion_overflow";
    case PoisonReason::bad_submission:
      return "bad_submission";
    case PoisonReason::bad_descriptor:
      return "bad_descriptor";
    case PoisonReason::bad_message:
      return "bad_message";
    case PoisonReason::bad_descriptor_passing:
      return "bad_descriptor_passing";
    case PoisonReason::region_fault:
      return "region_fault";
    case PoisonReason::handshake_timeout:
      return "handshake_timeout";
  }
  return "unknown";
}

SessionCounters::SessionCounters(base::CounterSet& set, std::string_view prefix) {
  const std::string dotted = std::string(prefix) + ".";
  attached = set.counter(dotted + "attached");
  resting = set.counter(dotted + "resting");
  submissions = set.counter(dotted + "submissions");
  pages = set.counter(dotted + "pages");
  completions = set.counter(dotted + "completions");
  wakes_futex = set.counter(dotted + "wakes_futex");
  wakes_bell = set.counter(dotted + "wakes_bell");
  held_operations = set.counter(dotted + "held_operations");
  held_bytes = set.counter(dotted + "held_bytes");
  held_timeouts = set.counter(dotted + "held_timeouts");
  absent_pages = set.counter(dotted + "absent_pages");
  turn_entries_max = set.counter(dotted + "turn_entries_max");
  entries_max = set.counter(dotted + "entries_max");
  for (std::uint32_t reason = 1; reason < ipc::kPoisonReasonCount; ++reason) {
    const std::string_view name = poison_reason_name(static_cast<ipc::PoisonReason>(reason));
    poisoned[reason] = set.counter(dotted + "poisoned." + std::string(name));
  }
  validate_stage_ns = base::Histogram(set, dotted + "stage.validate_ns");
  queue_stage_ns = base::Histogram(set, dotted + "stage.queue_ns");
}

}  // namespace simm::session
