// WorkBell: how data agents wake threads that wait for work. Ringing is one system call that does
// not block, and none while the bell has rung and nobody has answered.
// Thread: ring() from any; the rest the threads that wait.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "ipc/fd.h"

namespace simm::transport {

class WorkBell {
public:
  WorkBell() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // False: the process is out of descriptors.
  [[nodiscard]] bool is_usable() const noexcept { return event_.valid(); }

  void ring() noexcept {
    if (rung_.exchange(true, std::memory_order_acq_rel)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  }

  // Before a look for work: what is rung from here on rings again.
  void answer() noexcept {
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_.get(), &rings, sizeof rings);
    rung_.exchange(false, std::memory_order_acq_rel);
  }

  // Returns when it was rung since answer(), or after `wait_ns`, or for no reason. Of several
  // threads one at least returns. kNoDeadline: however long that takes.
  void wait(base::TimeNs wait_ns) noexcept {
    timespec limit{};
    limit.tv_sec = static_cast<time_t>(wait_ns / base::kNsPerSecond);
    limit.tv_nsec = static_cast<long>(wait_ns % base::kNsPerSecond);
    pollfd polled{event_.get(), POLLIN, 0};
    (void)::ppoll(&polled, 1, wait_ns == base::kNoDeadline ? nullptr : &limit, nullptr);
  }

private:
  const ipc::UniqueFd event_;
  std::atomic<bool> rung_{false};
};

}  // namespace simm::transport
