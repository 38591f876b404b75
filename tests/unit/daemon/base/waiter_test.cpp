#include "daemon/base/waiter.h"

#include <doctest/doctest.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "daemon/base/agent.h"
#include "daemon/base/real_clock.h"
#include "ipc/fd.h"

namespace waiter_test {

using namespace simm::base;

class Drain : public FdWatch {
public:
  explicit Drain(int descriptor) : fd(descriptor) {}
  void on_fd_ready(std::uint32_t) noexcept override {
    char byte = 0;
    while (::recv(fd, &byte, 1, MSG_DONTWAIT) > 0) ++messages;
  }
  int fd;
  int messages = 0;
};

void watch_and_wait() {
  RealClock clock;
  EpollWaiter waiter(clock);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const simm::ipc::UniqueFd ours(ends[0]);
  const simm::ipc::UniqueFd theirs(ends[1]);
  Drain drain(ours.get());
  REQUIRE(waiter.watch(ours.get(), drain).has_value());
  CHECK_FALSE(waiter.watch(ours.get(), drain).has_value());
  REQUIRE(::send(theirs.get(), "x", 1, 0) == 1);
  waiter.announce();
  waiter.wait_until(kNoDeadline);
  waiter.retract();
  CHECK(drain.messages == 1);
  waiter.unwatch(ours.get());
  REQUIRE(::send(theirs.get(), "x", 1, 0) == 1);
  const TimeNs before = clock.now_ns();
  waiter.wait_until(before + kNsPerMs);
  CHECK(clock.now_ns() - before >= kNsPerMs / 2);
  CHECK(drain.messages == 1);
  waiter.announce();
  waiter.wake();
  waiter.wait_until(kNoDeadline);  // returns at once, else this test hangs
}

TEST_CASE("a watched descriptor ends the wait and its handler runs on the waiting thread") {
  watch_and_wait();
}

TEST_CASE("a kernel or a filter without epoll_pwait2 changes nothing") {
  for (const int refusal : {ENOSYS, EPERM}) {
    // The filter is of this thread alone.
    std::thread([refusal] {
      const scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
      REQUIRE(filter != nullptr);
      REQUIRE(::seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<unsigned>(refusal)),
                                 __NR_epoll_pwait2, 0) == 0);
      REQUIRE(::seccomp_load(filter) == 0);
      ::seccomp_release(filter);
      REQUIRE(::syscall(__NR_epoll_pwait2, -1, nullptr, 0, nullptr, nullptr, 0) == -1);
      REQUIRE(errno == refusal);
      watch_and_wait();
    }).join();
  }
}

}  // namespace waiter_test
