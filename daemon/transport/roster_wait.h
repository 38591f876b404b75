// RosterWait: how long a server waits for the first roster of a link, which a requester sends at
// once. Without that limit links that say nothing would take every place. While most places are
// taken, the limit is shorter, so that whoever dials next finds one. Owned by a responder's link.
// Thread: the data agent.
#pragma once

#include <algorithm>
#include <cstddef>

#include "daemon/base/clock.h"

namespace simm::transport {

// While places are short: many round trips, and little for those who wait for a place.
inline constexpr base::TimeNs kRosterChanceNs = 100 * base::kNsPerMs;
// Places are short when no more than this part of them is free.
inline constexpr std::size_t kFreePlacesPart = 8;

[[nodiscard]] constexpr bool are_places_short(std::size_t free, std::size_t all) noexcept {
  return free <= all / kFreePlacesPart;
}

class RosterWait {
public:
  void begin(base::TimeNs now_ns) noexcept { since_ns_ = now_ns; }
  // `away_ns` of the time until now nobody listened.
  void forgive(base::TimeNs away_ns, base::TimeNs now_ns) noexcept {
    since_ns_ += std::min(away_ns, now_ns > since_ns_ ? now_ns - since_ns_ : 0);
  }
  // When the link has to go; `silence_ns`: after so much silence a requester is dead.
  [[nodiscard]] base::TimeNs due_ns(base::TimeNs silence_ns, bool is_short) const noexcept {
    return since_ns_ + (is_short ? std::min(kRosterChanceNs, silence_ns) : silence_ns);
  }

private:
  base::TimeNs since_ns_ = 0;
};

}  // namespace simm::transport
