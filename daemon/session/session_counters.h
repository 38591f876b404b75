// What the sessions of one data agent count. Names are "<prefix>.<counter>", for instance
// "session.0.submissions" and "session.0.poisoned.ring_cursor".
// Thread: written by the data agent of the sessions.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counter_group.h"
#include "daemon/engine/engine_counters.h"
#include "daemon/session/tenant_traffic.h"
#include "ipc/layout.h"

namespace simm::session {

// Dotted-name form of a reason, "unknown" for a value outside the set. Static storage.
std::string_view poison_reason_name(ipc::PoisonReason reason) noexcept;

// The names by reason; that of none is empty, because nothing is poisoned for it.
std::array<std::string_view, ipc::kPoisonReasonCount> poison_reasons() noexcept;

struct SessionCounters : base::CounterGroup {
  SessionCounters() = default;  // counts into unread cells
  // `prefix`: "session.0" of the data agent 0.
  SessionCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter attached =
      counter("attached", {"simm_sessions_attached", "Sessions that a data agent serves."});
  base::Counter resting = counter(
      "resting",
      {"simm_sessions_resting",
       "Of these, sessions without traffic, which no turn looks at until their clients ring."});
  base::Counter submissions =
      counter("submissions", {"simm_session_submissions_total",
                              "Submissions taken out of clients' rings, no-ops included."});
  base::Counter pages =
      counter("pages", {"simm_session_pages_total", "Pages of those submissions."});
  base::Counter completions = counter(
      "completions", {"simm_session_completions_total", "Completions written to clients' rings."});
  base::Counter wakes_futex =
      counter("wakes_futex",
              {"simm_session_wakes_total", "Sleeping clients that were woken.", "how=futex"});
  base::Counter wakes_bell = counter("wakes_bell", {"simm_session_wakes_total", "", "how=bell"});
  // By HeldFor.
  std::array<base::Counter, kHeldForCount> held =
      counters("held_", kHeldForNames, "limit",
               {"simm_session_held_total",
                "Submissions that had to wait for a limit of their tenant or engine."});
  base::Counter held_timeouts = counter(
      "held_timeouts", {"simm_session_held_timeouts_total",
                        "Submissions whose deadline passed while they waited for a limit."});
  base::Counter absent_pages = counter(
      "absent_pages",
      {"simm_session_absent_pages_total",
       "Pages refused because their client's memory was absent and the touch budget used up."});
  base::Counter turn_entries_max = counter(
      "turn_entries_max", {"simm_session_turn_entries_max",
                           "Most submissions taken in one turn since the start, of all tenants."});
  base::Counter entries_max =
      counter("entries_max", {"simm_session_tenant_turn_entries_max",
                              "Most submissions of one tenant taken in one turn since the start."});
  std::array<base::Counter, ipc::kPoisonReasonCount> poisoned =
      counters("poisoned.", poison_reasons(), "reason",
               {"simm_session_poisonings_total",
                "Sessions closed because their client broke the protocol."});

  // Stages of a submission.
  base::Histogram validate_stage_ns =
      histogram("stage.validate_ns", engine::stage_metric("stage=validate"));
  base::Histogram queue_stage_ns = histogram("stage.queue_ns", engine::stage_metric("stage=queue"));
};

}  // namespace simm::session
