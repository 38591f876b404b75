// WaitStrategy: how a client thread waits for the next completion of its lane.
//
//   spin      polls until the deadline. The lowest latency, a whole core.
//   adaptive  polls for a budget of time, then sleeps on the lane's futex. The budget follows what
//             happened: an answer within the spin keeps it (and may raise it), an answer that came
//             only after sleeping halves it. Once it has shrunk, a longer spin is tried again on
//             every kProbeInterval-th wait, so that a change for the better is noticed.
//   event     sleeps at once.
//
// Why only an answer *during* the spin may raise the budget: when both ends share one CPU, the
// answer can not come while the client spins, and comes soon after it sleeps. A rule that took a
// short sleep for a reason to spin longer would make the two ends fight for the CPU.
//
// Thread: one at a time, like the lane. Time: CLOCK_MONOTONIC, or the function given.
#pragma once

#include <cstdint>

#include "ipc/client_lane.h"
#include "ipc/session_words.h"

namespace simm::ipc {

enum class WaitMode : std::uint8_t { spin, adaptive, event };

class WaitStrategy {
public:
  using NowFunction = std::uint64_t (*)() noexcept;

  // A wake-up of a sleeper costs 1 to 30 us; spinning for about that long is at most twice as
  // expensive as the best choice made in hindsight.
  static constexpr std::uint64_t kSpinMaxNs = 40'000;
  static constexpr std::uint64_t kSpinMinNs = 500;
  static constexpr std::uint32_t kProbeInterval = 32;

  explicit WaitStrategy(WaitMode mode, NowFunction now = &monotonic_now_ns) noexcept
      : now_(now), mode_(mode) {}

  // Waits until the lane has something to poll. ok: it has (or the lane is broken, which the poll
  // then says). timeout: the deadline (absolute, ns; kNoDeadlineNs for none) has passed. Else the
  // reason why nothing will complete any more: ClientSessionWords::usable().
  Status wait(ClientLane& lane, const ClientSessionWords& session,
              std::uint64_t deadline_ns) noexcept;

  [[nodiscard]] std::uint64_t spin_budget_ns() const noexcept { return budget_ns_; }

private:
  // ok, or timeout when `until_ns` passed first, or the session's end.
  Status spin_until(const ClientLane& lane, const ClientSessionWords& session,
                    std::uint64_t until_ns) noexcept;
  Status sleep(ClientLane& lane, const ClientSessionWords& session,
               std::uint64_t deadline_ns) noexcept;
  [[nodiscard]] std::uint64_t next_spin_ns() noexcept;
  void learn(std::uint64_t spin_ns, bool answered_in_spin) noexcept;

  NowFunction now_;
  std::uint64_t budget_ns_ = kSpinMaxNs;
  std::uint32_t waits_ = 0;
  WaitMode mode_;
};

}  // namespace simm::ipc
