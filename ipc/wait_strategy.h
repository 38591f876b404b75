// WaitStrategy: how a client thread waits for the next completion of its lane.
//
//   spin      polls until the deadline. The lowest latency, a whole core.
//   adaptive  polls for a budget of time that follows what happened (SpinBudget), then sleeps on
//             the lane's futex.
//   event     sleeps at once.
//
// Thread: one at a time, like the lane. Time: CLOCK_MONOTONIC, or the function given.
#pragma once

#include <cstdint>

#include "ipc/client_lane.h"
#include "ipc/session_words.h"
#include "ipc/spin_budget.h"

namespace simm::ipc {

enum class WaitMode : std::uint8_t { spin, adaptive, event };

class WaitStrategy {
public:
  using NowFunction = std::uint64_t (*)() noexcept;

  explicit WaitStrategy(WaitMode mode, NowFunction now = &monotonic_now_ns) noexcept
      : now_(now), mode_(mode) {}

  // Waits until the lane has something to poll. ok: it has (or the lane is broken, which the poll
  // then says). timeout: the deadline (absolute, ns; kNoDeadlineNs for none) has passed. Else the
  // reason why nothing will complete any more: ClientSessionWords::usable().
  Status wait(ClientLane& lane, const ClientSessionWords& session,
              std::uint64_t deadline_ns) noexcept;

  [[nodiscard]] std::uint64_t spin_budget_ns() const noexcept { return budget_.budget_ns(); }

private:
  // ok, or timeout when `until_ns` passed first, or the session's end.
  Status spin_until(const ClientLane& lane, const ClientSessionWords& session,
                    std::uint64_t until_ns) noexcept;
  Status sleep(ClientLane& lane, const ClientSessionWords& session,
               std::uint64_t deadline_ns) noexcept;

  NowFunction now_;
  SpinBudget budget_;
  WaitMode mode_;
};

}  // namespace simm::ipc
