// The tunables of sessions, in one place. Times of a client beyond a maximum are cut, not refused.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"

namespace simm::session {

struct SessionLimits {
  base::TimeNs timeout_default_ns = 10 * base::kNsPerSecond;
  base::TimeNs timeout_max_ns = 600 * base::kNsPerSecond;
  std::uint32_t regions_max = 4096;
  std::uint32_t name_spaces_max = base::kNamespacesPerTenantMax;
};

// Time that the work of a client has that is gone, or was poisoned: nobody waits for it.
inline constexpr base::TimeNs kGoneClientNs = 500 * base::kNsPerMs;
// Entries that a tenant may have taken in one turn of its data agent.
inline constexpr std::uint32_t kEntriesPerTurn = 64;
// Lanes without a submission that are looked at in one turn for one tenant, and a session more;
// the next turn goes on behind them.
inline constexpr std::uint32_t kIdleLanesPerTurn = 256;
// A session without a submission for so many looks, and for so long, leaves the round until its
// client rings.
inline constexpr std::uint32_t kRestLooks = 64;
inline constexpr base::TimeNs kRestNs = base::kNsPerMs;
// Each such time one place is looked at for a session at rest whose client has rung: what a busy
// agent pays for the others.
inline constexpr base::TimeNs kRestLookNs = 500;
// Commands of the control thread that are carried out in one turn.
inline constexpr std::uint32_t kCommandsPerTurn = 16;

}  // namespace simm::session
