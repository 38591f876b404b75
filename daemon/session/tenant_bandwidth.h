// TenantBandwidth: how many bytes a second the sessions of one tenant may move through this daemon,
// on all data agents together. One word says until when what was taken so far keeps the tenant
// busy; a submission is taken while that is at most kBurstNs away, and moves it. So a long one goes
// whenever a short one does, and what comes behind it waits until its bytes are paid off.
//
// An agent that has to wait pays for what the tenant may move in kTurnNs, and waits for its turn:
// so agents have turns in the order in which they came. Nobody sleeps here. Source of the rule: the
// generic cell rate algorithm, ITU-T I.371, in its virtual scheduling form.
// Owned by the tenant's account; thread: any data agent, and the control thread that made it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "daemon/base/clock.h"

namespace simm::session {

class TenantBandwidth {
public:
  // What may be taken at once behind a pause.
  static constexpr base::TimeNs kBurstNs = 10 * base::kNsPerMs;
  static constexpr base::TimeNs kTurnNs = base::kNsPerMs;

  explicit TenantBandwidth(std::uint64_t bytes_per_s)
      : ns_per_byte_(static_cast<double>(base::kNsPerSecond) / static_cast<double>(bytes_per_s)),
        turn_bytes_(bytes_per_s / (base::kNsPerSecond / kTurnNs)) {}

  // A submission may be taken now.
  [[nodiscard]] bool is_free(base::TimeNs now_ns) const noexcept {
    return due_ns_.load(std::memory_order_relaxed) <= now_ns + kBurstNs;
  }
  // One of so many bytes was taken.
  void pay(std::uint64_t bytes, base::TimeNs now_ns) noexcept {
    static_cast<void>(add(cost(bytes), now_ns));
  }
  // Pays for turn_bytes(); returns when they may be taken.
  [[nodiscard]] base::TimeNs reserve_turn(base::TimeNs now_ns) noexcept {
    const base::TimeNs due_ns = add(kTurnNs, now_ns);
    return due_ns > kBurstNs ? due_ns - kBurstNs : 0;
  }
  [[nodiscard]] std::uint64_t turn_bytes() const noexcept { return turn_bytes_; }
  // So many of the bytes that were paid for did not move.
  void give_back(std::uint64_t bytes) noexcept {
    due_ns_.fetch_sub(cost(bytes), std::memory_order_relaxed);
  }

private:
  [[nodiscard]] base::TimeNs cost(std::uint64_t bytes) const noexcept {
    return static_cast<base::TimeNs>(static_cast<double>(bytes) * ns_per_byte_);
  }
  // When it was due before.
  base::TimeNs add(base::TimeNs cost_ns, base::TimeNs now_ns) noexcept {
    base::TimeNs due_ns = due_ns_.load(std::memory_order_relaxed);
    while (!due_ns_.compare_exchange_weak(due_ns, std::max(due_ns, now_ns) + cost_ns,
                                          std::memory_order_relaxed)) {
    }
    return std::max(due_ns, now_ns);
  }

  const double ns_per_byte_;
  const std::uint64_t turn_bytes_;
  alignas(64) std::atomic<base::TimeNs> due_ns_{0};  // written by all agents
};

// What one data agent has of it: a turn that it has paid for.
class BandwidthTurn {
public:
  // False: the tenant's next submission waits until from_ns().
  [[nodiscard]] bool may_take(TenantBandwidth& of, base::TimeNs now_ns) noexcept {
    if (paid_bytes_ == 0) {
      if (of.is_free(now_ns)) return true;
      from_ns_ = of.reserve_turn(now_ns);
      paid_bytes_ = of.turn_bytes();
    }
    return now_ns >= from_ns_;
  }
  [[nodiscard]] base::TimeNs from_ns() const noexcept { return from_ns_; }
  // One of so many bytes was taken.
  void pay(TenantBandwidth& of, std::uint64_t bytes, base::TimeNs now_ns) noexcept {
    const std::uint64_t paid = std::min(bytes, paid_bytes_);
    paid_bytes_ -= paid;
    if (bytes > paid) of.pay(bytes - paid, now_ns);
  }

private:
  std::uint64_t paid_bytes_ = 0;
  base::TimeNs from_ns_ = 0;
};

}  // namespace simm::session
