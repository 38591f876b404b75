// PayloadProgress: when payload of a link's moves got on last, and when their deadlines are looked
// at. A requester that is alive but lets its moves wait holds extents and a part of the window of
// moves: after peer_silence_ns without progress its link ends. Pings say nothing about that. Owned
// by the serving side of a link, over TCP or RDMA. Thread: the server's data agent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "daemon/base/clock.h"

namespace simm::transport {

// For so long a server bears with silent peers, where requesters notice dead ones after
// `detection_ns`: who asks is patient with the server, so is the server with who asks.
constexpr base::TimeNs silence_after(base::TimeNs detection_ns) noexcept {
  return 3 * detection_ns;
}

class PayloadProgress {
public:
  // A new link.
  void begin() noexcept { deadlines_ns_ = 0; }
  // Payload got on, or the first move begins: nobody waited before.
  void note() noexcept { has_progress_ = true; }
  // True: there was progress since the last call, and the wait begins anew.
  bool take(base::TimeNs now_ns) noexcept {
    if (!std::exchange(has_progress_, false)) return false;
    begin_ns_ = now_ns;
    return true;
  }
  // For so long moves wait.
  [[nodiscard]] base::TimeNs waits_ns(base::TimeNs now_ns) const noexcept {
    return now_ns > begin_ns_ ? now_ns - begin_ns_ : 0;
  }
  // `away_ns` of the wait until now were not the requester's.
  void forgive(base::TimeNs away_ns, base::TimeNs now_ns) noexcept {
    begin_ns_ += std::min(away_ns, waits_ns(now_ns));
  }

  // True, three times in `silence_ns`: it is time to ask is_past_deadline().
  [[nodiscard]] bool are_deadlines_due(base::TimeNs now_ns, base::TimeNs silence_ns) noexcept {
    if (now_ns < deadlines_ns_) return false;
    deadlines_ns_ = now_ns + silence_ns / 3;
    return true;
  }
  // Whether one of the requests has moves under way, `silence_ns` behind its deadline.
  template <typename Slots>
  [[nodiscard]] static bool is_past_deadline(Slots& slots, std::uint32_t count, base::TimeNs now_ns,
                                             base::TimeNs silence_ns) noexcept {
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      const auto& incoming = slots[slot];
      if (!incoming.is_served || incoming.moves_open == 0) continue;
      const base::TimeNs deadline_ns = incoming.header.deadline_ns;
      if (deadline_ns == 0 || now_ns <= deadline_ns) continue;
      if (now_ns - deadline_ns >= silence_ns) return true;
    }
    return false;
  }

private:
  bool has_progress_ = false;      // since the last take()
  base::TimeNs begin_ns_ = 0;      // of the wait, while moves are under way
  base::TimeNs deadlines_ns_ = 0;  // when deadlines are looked at next
};

}  // namespace simm::transport
