// LinkLost: the end of a link between two daemons, as its data agent tells the control thread, once
// for each link. Plain values. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/ids.h"

namespace simm::transport {

// Why a connection ended.
enum class LinkLoss : std::uint8_t {
  closed = 0,      // by the peer
  io_error = 1,    // the system said so
  protocol = 2,    // the peer sent what no peer of ours sends
  silent = 3,      // the peer did not answer within its detection time
  reset = 4,       // a request on it had to be fenced
  dropped = 5,     // the control thread asked for it
  refused = 6,     // no room for another link
  given_up = 7,    // its requester said over another link that this one is over
  superseded = 8,  // its daemon has a later life
  stalled = 9,     // the peer let moves wait, or did not end them in time
};
inline constexpr std::size_t kLinkLossCount = 10;

struct LinkLost {
  std::uint64_t link = 0;
  base::PeerId peer;
  std::uint16_t shard = 0;
  LinkLoss cause = LinkLoss::closed;
};

// How much of the time since the last turn was ours: an agent has a turn at least every third of
// the time after which silence means death, else it did not listen.
[[nodiscard]] constexpr base::TimeNs uncounted_ns(base::TimeNs last_turn_ns, base::TimeNs now_ns,
                                                  base::TimeNs silence_ns) noexcept {
  if (last_turn_ns == 0 || now_ns - last_turn_ns <= silence_ns / 3) return 0;
  return now_ns - last_turn_ns - silence_ns / 3;
}

}  // namespace simm::transport
