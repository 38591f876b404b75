// Backoff: how long to wait before the next attempt to reach a peer. Doubles from kFirstNs to
// kLongestNs while attempts fail. The upper half is random: daemons that lost a peer at the same
// moment do not come back at the same moment. A connection counts as a success
// once it has lasted kStableNs: a peer that accepts and hangs up at once is not called at full
// speed. One dialer for each peer looks for one that is away every kLookNs at most. Owned by one
// dialer. Thread: its owner's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/random.h"

namespace simm::cluster {

class Backoff {
public:
  static constexpr base::TimeNs kFirstNs = 50 * base::kNsPerMs;
  static constexpr base::TimeNs kLongestNs = base::kNsPerSecond;
  static constexpr base::TimeNs kLookNs = 200 * base::kNsPerMs;
  // Of a peer that many daemons lose at one moment: for each of them, on average.
  static constexpr base::TimeNs kHerdNs = base::kNsPerMs;
  // The same for a peer that has no place for one more connection.
  static constexpr base::TimeNs kFirstRoomNs = base::kNsPerSecond;
  static constexpr base::TimeNs kLongestRoomNs = 16 * base::kNsPerSecond;
  static constexpr base::TimeNs kStableNs = 5 * base::kNsPerSecond;
  // An attempt that nobody answers has failed then: connecting and hello together.
  static constexpr base::TimeNs kAttemptNs = base::kNsPerSecond;

  // After a failed attempt, or a connection that was lost: the wait before the next attempt.
  [[nodiscard]] base::TimeNs next_wait_ns(base::Random& random,
                                          base::TimeNs at_most_ns = kLongestNs) noexcept {
    const base::TimeNs longest_ns = std::min(wait_ns_, at_most_ns);
    wait_ns_ = std::min(2 * wait_ns_, kLongestNs);
    return longest_ns / 2 + random.below(longest_ns / 2);
  }

  // At least so long waits who has lost a peer together with so many other daemons: they come back
  // one by one, all within kLongestNs. Few need no such wait.
  [[nodiscard]] static base::TimeNs herd_wait_ns(base::Random& random,
                                                 std::size_t daemons) noexcept {
    const base::TimeNs longest_ns = std::min(daemons * kHerdNs, kLongestNs);
    return longest_ns <= kFirstNs ? 0 : random.below(longest_ns);
  }

  // After an attempt that was refused for want of room.
  [[nodiscard]] base::TimeNs next_room_wait_ns(base::Random& random) noexcept {
    const base::TimeNs longest_ns = room_wait_ns_;
    room_wait_ns_ = std::min(2 * room_wait_ns_, kLongestRoomNs);
    return longest_ns / 2 + random.below(longest_ns / 2);
  }

  void on_connected(base::TimeNs now_ns) noexcept {
    connected_ns_ = now_ns;
    room_wait_ns_ = kFirstRoomNs;
  }
  // Returns whether the connection had lasted.
  bool on_lost(base::TimeNs now_ns) noexcept {
    const bool had_lasted = now_ns - connected_ns_ >= kStableNs;
    if (had_lasted) wait_ns_ = kFirstNs;
    return had_lasted;
  }

private:
  base::TimeNs wait_ns_ = kFirstNs;
  base::TimeNs room_wait_ns_ = kFirstRoomNs;
  base::TimeNs connected_ns_ = 0;
};

}  // namespace simm::cluster
