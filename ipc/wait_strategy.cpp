#include "ipc/wait_strategy.h"

#include <algorithm>

namespace simm::ipc {
namespace {

// Polls between two looks at the clock: a look costs about as much as a pause.
constexpr int kPausesPerLook = 8;

void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  return b > kNoDeadlineNs - a ? kNoDeadlineNs : a + b;
}

}  // namespace

Status WaitStrategy::wait(ClientLane& lane, const ClientSessionWords& session,
                          std::uint64_t deadline_ns) noexcept {
  if (lane.has_completion()) return Status::ok;
  if (mode_ == WaitMode::spin) return spin_until(lane, session, deadline_ns);
  if (mode_ == WaitMode::event) return sleep(lane, session, deadline_ns);

  const std::uint64_t spin_ns = budget_.next_ns();
  if (spin_ns != 0) {
    const std::uint64_t until_ns = std::min(saturating_add(now_(), spin_ns), deadline_ns);
    const Status spun = spin_until(lane, session, until_ns);
    budget_.learn(spin_ns, spun == Status::ok);
    if (spun != Status::timeout) return spun;
  }
  return sleep(lane, session, deadline_ns);
}

Status WaitStrategy::spin_until(const ClientLane& lane, const ClientSessionWords& session,
                                std::uint64_t until_ns) noexcept {
  for (;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (lane.has_completion()) return Status::ok;
      pause_cpu();
    }
    const Status usable = session.usable();
    // What was completed before the end is still the caller's.
    if (usable != Status::ok) return lane.has_completion() ? Status::ok : usable;
    if (until_ns != kNoDeadlineNs && now_() >= until_ns) {
      return lane.has_completion() ? Status::ok : Status::timeout;
    }
  }
}

Status WaitStrategy::sleep(ClientLane& lane, const ClientSessionWords& session,
                           std::uint64_t deadline_ns) noexcept {
  bool in_time = true;
  for (;;) {
    if (!lane.announce_sleep(ClientWait::futex)) return Status::ok;
    const Status usable = session.usable();
    if (usable != Status::ok || !in_time) {
      lane.cancel_sleep();
      if (lane.has_completion()) return Status::ok;
      return usable != Status::ok ? usable : Status::timeout;
    }
    in_time = lane.sleep_on_futex(deadline_ns);
  }
}

}  // namespace simm::ipc
