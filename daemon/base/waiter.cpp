#include "daemon/base/waiter.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "daemon/base/agent.h"
#include "simm/check.h"

namespace simm::base {

EpollWaiter::EpollWaiter(const Clock& clock)
    : clock_(clock),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!usable()) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // our own: everything else has a handler
  SIMM_CHECK(::epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event) == 0);
}

EpollWaiter::~EpollWaiter() {
  if (epoll_ >= 0) ::close(epoll_);
  if (event_ >= 0) ::close(event_);
}

void EpollWaiter::wait_until(TimeNs deadline_ns) noexcept {
  timespec timeout{};
  const timespec* limit = nullptr;
  if (deadline_ns != kNoDeadline) {
    const TimeNs now = clock_.now_ns();
    const TimeNs left = deadline_ns > now ? deadline_ns - now : 0;
    timeout.tv_sec = static_cast<time_t>(left / kNsPerSecond);
    timeout.tv_nsec = static_cast<long>(left % kNsPerSecond);
    limit = &timeout;
  }
  std::array<epoll_event, 64> events;
  for (const epoll_event& event : std::span(events).first(wait(limit, events))) {
    if (event.data.ptr == nullptr) {
      std::uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t drained = ::read(event_, &wakes, sizeof wakes);
    } else {
      static_cast<FdWatch*>(event.data.ptr)->on_fd_ready(event.events);
    }
  }
}

std::size_t EpollWaiter::wait(const timespec* limit, std::span<epoll_event> events) noexcept {
  const auto room = static_cast<int>(events.size());
  if (has_pwait2_) {
    // Not through the C library: older ones lack it.
    const long ready = ::syscall(__NR_epoll_pwait2, epoll_, events.data(), room, limit, nullptr, 0);
    if (ready >= 0) return static_cast<std::size_t>(ready);
    if (errno == EINTR) return 0;
    has_pwait2_ = false;  // younger than this kernel (Linux 5.11), or forbidden by a filter
  }
  // Two calls, because epoll_wait only knows milliseconds.
  pollfd polled{epoll_, POLLIN, 0};
  if (::ppoll(&polled, 1, limit, nullptr) <= 0) return 0;
  return static_cast<std::size_t>(std::max(0, ::epoll_wait(epoll_, events.data(), room, 0)));
}

Outcome EpollWaiter::watch(int descriptor, FdWatch& handler) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.ptr = &handler;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return system_error("epoll_ctl(ADD)", errno);
  }
  return Done{};
}

void EpollWaiter::unwatch(int descriptor) noexcept {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
}

void EpollWaiter::wake() noexcept {
  if (sleeping_.exchange(0, std::memory_order_acq_rel) == 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_, &one, sizeof one);
}

}  // namespace simm::base
