// SpinBudget: for how long it pays off to look again and again before going to sleep. An answer
// within the spin keeps the budget (and may raise it), an answer that came only after sleeping
// halves it. Once it has shrunk, a longer spin is tried again on every kProbeInterval-th wait, so
// that a change for the better is noticed.
//
// Only an answer *during* the spin may raise the budget. When both ends share one CPU, the answer
// can not come while the client spins, and comes soon after it sleeps. A rule that took a short
// sleep for a reason to spin longer would make the two ends fight for the CPU.
//
// Owned by whoever waits: WaitStrategy, CompletionQueue. Thread: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace simm::ipc {

class SpinBudget {
public:
  // A wake-up of a sleeper costs 1 to 30 us. Spinning for about that long is at most twice as
  // expensive as the best choice made in hindsight.
  static constexpr std::uint64_t kSpinMaxNs = 40'000;
  static constexpr std::uint64_t kSpinMinNs = 500;
  static constexpr std::uint32_t kProbeInterval = 32;

  // How long the wait that begins now may spin; 0: not at all.
  [[nodiscard]] std::uint64_t next_ns() noexcept {
    ++waits_;
    if (budget_ns_ < kSpinMaxNs && waits_ % kProbeInterval == 0) return kSpinMaxNs;
    return budget_ns_;
  }
  // What became of a spin of that length.
  void learn(std::uint64_t spin_ns, bool answered_in_spin) noexcept {
    if (answered_in_spin) {
      budget_ns_ = std::max(budget_ns_, spin_ns);
    } else {
      budget_ns_ = budget_ns_ / 2 < kSpinMinNs ? 0 : budget_ns_ / 2;
    }
  }
  [[nodiscard]] std::uint64_t budget_ns() const noexcept { return budget_ns_; }

private:
  std::uint64_t budget_ns_ = kSpinMaxNs;
  std::uint32_t waits_ = 0;
};

}  // namespace simm::ipc
