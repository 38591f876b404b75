// TouchBudget: how many bytes of absent client pages the daemon may still make present by touching
// them. Such pages are charged to the daemon's memory cgroup, so a huge sparse region would
// otherwise be a way to have the daemon killed. libclient faults its pages in itself; the budget is
// for clients that do not, and for pages that went in between.
//
// The pages stay for as long as the client likes, so nothing is given back for them. But the whole
// budget is there again when kTouchRenewalNs have passed since it was last renewed: then the bound
// is one of bytes in a time, and a client that used its budget up is not refused for ever. A
// session's budget has its tenant's above it, and that one the daemon's, so that many sessions one
// after the other get no more.
// Owned by the session, the tenant's account or the daemon; outlives regions. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

#include "ipc/futex.h"

namespace simm::memory {

inline constexpr std::uint64_t kTouchRenewalNs = 600'000'000'000;
// The budgets of a tenant and of the daemon, in budgets of a session.
inline constexpr std::uint64_t kTouchTenantShare = 4;
inline constexpr std::uint64_t kTouchDaemonShare = 16;

class TouchBudget {
public:
  using Clock = std::uint64_t (*)() noexcept;

  // `above`: what it takes must be left there too; null: nothing is above. Outlives this one.
  explicit TouchBudget(std::uint64_t bytes, TouchBudget* above = nullptr,
                       Clock clock = &ipc::monotonic_now_ns) noexcept
      : bytes_(bytes), above_(above), clock_(clock), left_(bytes), renew_ns_(next_renewal()) {}

  // False: not enough is left, nothing was taken.
  [[nodiscard]] bool take(std::uint64_t bytes) noexcept {
    renew();
    if (!take_here(bytes)) return false;
    if (above_ == nullptr || above_->take(bytes)) return true;
    left_.fetch_add(bytes, std::memory_order_relaxed);
    return false;
  }

  // A client took pages away that were there: nothing is remembered of its pages any more.
  // `unseen`: bytes that were probably touched before that was noticed. They count as far as there
  // are any.
  void doubt(std::uint64_t unseen) noexcept {
    is_doubted_.store(true, std::memory_order_relaxed);
    if (!take(unseen)) (void)take(left_bytes());
  }
  [[nodiscard]] bool is_doubted() const noexcept {
    return is_doubted_.load(std::memory_order_relaxed);
  }

  // When it was last asked.
  [[nodiscard]] std::uint64_t left_bytes() const noexcept {
    return left_.load(std::memory_order_relaxed);
  }

private:
  [[nodiscard]] std::uint64_t next_renewal() const noexcept { return clock_() + kTouchRenewalNs; }

  [[nodiscard]] bool take_here(std::uint64_t bytes) noexcept {
    std::uint64_t left = left_.load(std::memory_order_relaxed);
    while (bytes <= left) {
      if (left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  // What another thread takes or gives back at this very moment may be lost or counted twice: once
  // in a renewal, and never more than a budget.
  void renew() noexcept {
    std::uint64_t due_ns = renew_ns_.load(std::memory_order_relaxed);
    if (clock_() < due_ns) return;
    if (!renew_ns_.compare_exchange_strong(due_ns, next_renewal(), std::memory_order_relaxed)) {
      return;
    }
    left_.store(bytes_, std::memory_order_relaxed);
  }

  const std::uint64_t bytes_;
  TouchBudget* const above_;
  const Clock clock_;
  std::atomic<std::uint64_t> left_;
  std::atomic<std::uint64_t> renew_ns_;
  std::atomic<bool> is_doubted_{false};
};

}  // namespace simm::memory
