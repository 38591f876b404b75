// MapPace: how soon a manager may make its next map. A token bucket: a few maps may follow each
// other at once, so the first changes wait for nothing. After these comes a map in each interval at
// most, for all that has changed meanwhile. So a thousand daemons that join one by one cost a few
// maps, not a thousand. Owned by Manager. Thread: its owner's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/clock.h"

namespace simm::cluster {

class MapPace {
public:
  // `burst`: maps without a wait, after a rest; at least 1.
  MapPace(base::TimeNs interval_ns, std::uint32_t burst) noexcept
      : interval_ns_(interval_ns), ahead_ns_max_((burst - 1) * interval_ns) {}

  // From then on the next map may be made.
  [[nodiscard]] base::TimeNs next_ns() const noexcept {
    return full_ns_ > ahead_ns_max_ ? full_ns_ - ahead_ns_max_ : 0;
  }
  void on_map(base::TimeNs now_ns) noexcept {
    full_ns_ = std::max(full_ns_, now_ns) + interval_ns_;
  }

private:
  const base::TimeNs interval_ns_;
  const base::TimeNs ahead_ns_max_;  // of full_ns_, while a map may be made
  base::TimeNs full_ns_ = 0;         // when the bucket has all of its tokens again
};

}  // namespace simm::cluster
