#include "daemon/base/waiter.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
  // ppoll on the epoll descriptor, because epoll_wait only knows milliseconds (and epoll_pwait2 is
  // younger than the kernels we run on).
  timespec timeout{};
  const timespec* limit = nullptr;
  if (deadline_ns != kNoDeadline) {
    const TimeNs now = clock_.now_ns();
    const TimeNs left = deadline_ns > now ? deadline_ns - now : 0;
    timeout.tv_sec = static_cast<time_t>(left / kNsPerSecond);
    timeout.tv_nsec = static_cast<long>(left % kNsPerSecond);
    limit = &timeout;
  }
  pollfd polled{epoll_, POLLIN, 0};
  if (::ppoll(&polled, 1, limit, nullptr) <= 0) return;

  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.ptr == nullptr) {
      std::uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t drained = ::read(event_, &wakes, sizeof wakes);
    } else {
      static_cast<FdWatch*>(event.data.ptr)->on_fd_ready(event.events);
    }
  }
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
