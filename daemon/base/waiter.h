// Waiter: how the thread of an agent runner sleeps and is woken. One per thread.
//
// The handshake that loses no wake-up: the sleeper calls announce(), looks for work once more, and
// only then wait_until(). A sender makes its work visible (mailbox push) and then calls wake().
// Both exchange one word, so either the sender sees the announcement and wakes, or the sleeper's
// second look sees the work.
//
// EpollWaiter sleeps in epoll, so descriptors (the bells of sessions) wake it as well.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>

#include "daemon/base/clock.h"
#include "simm/expected.h"

namespace simm::base {

// Somebody who owns a descriptor that a Waiter watches.
class FdWatch {
public:
  virtual ~FdWatch() = default;
  // Thread: the waiter's. Level-triggered: the handler reads until the descriptor is empty, or
  // stops watching it. It may unwatch() itself, no other one.
  virtual void on_fd_ready(std::uint32_t epoll_events) noexcept = 0;
};

class Waiter {
public:
  virtual ~Waiter() = default;

  // Thread: the sleeper.
  virtual void announce() noexcept = 0;
  virtual void retract() noexcept = 0;
  // Sleeps until `deadline_ns`, wake(), or a watched descriptor is ready; kNoDeadline is allowed.
  // A wake() since announce() makes it return at once. Spurious returns are allowed.
  virtual void wait_until(TimeNs deadline_ns) noexcept = 0;
  virtual Outcome watch(int descriptor, FdWatch& handler) = 0;
  virtual void unwatch(int descriptor) noexcept = 0;

  // Thread: any. One atomic exchange when nobody sleeps.
  virtual void wake() noexcept = 0;
};

class EpollWaiter final : public Waiter {
public:
  explicit EpollWaiter(const Clock& clock);
  ~EpollWaiter() override;
  EpollWaiter(const EpollWaiter&) = delete;
  EpollWaiter& operator=(const EpollWaiter&) = delete;

  void announce() noexcept override { sleeping_.exchange(1, std::memory_order_acq_rel); }
  void retract() noexcept override { sleeping_.store(0, std::memory_order_release); }
  void wait_until(TimeNs deadline_ns) noexcept override;
  Outcome watch(int descriptor, FdWatch& handler) override;
  void unwatch(int descriptor) noexcept override;
  void wake() noexcept override;

  // True when the descriptors it needs could be made; else the process is out of descriptors.
  [[nodiscard]] bool usable() const noexcept { return epoll_ >= 0 && event_ >= 0; }

private:
  // How many of `events` are filled; `limit` null: however long that takes.
  std::size_t wait(const timespec* limit, std::span<epoll_event> events) noexcept;

  const Clock& clock_;
  int epoll_ = -1;
  int event_ = -1;
  bool has_pwait2_ = true;  // until the kernel says otherwise
  alignas(128) std::atomic<std::uint32_t> sleeping_{0};
};

}  // namespace simm::base
