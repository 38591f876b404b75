#include "daemon/transport/tcp/uring_io.h"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <thread>

#include "daemon/base/real_clock.h"
#include "daemon/base/waiter.h"

namespace simm::transport::uring_io_test {

std::atomic<int> enters{0};

// In the place of each call that the filter below stops.
void on_stopped_call(int, siginfo_t* info, void*) {
  if (info->si_syscall == __NR_io_uring_enter) enters.fetch_add(1);
}

// From now on, io_uring_enter of this thread is counted and not made.
bool count_enters() {
  struct sigaction action {};
  action.sa_sigaction = on_stopped_call;
  action.sa_flags = SA_SIGINFO;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_enter, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, filter};
  return sigaction(SIGSYS, &action, nullptr) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_CASE("who was woken by something else makes no system call in its turns") {
  base::RealClock clock;
  base::EpollWaiter waiter(clock);
  auto made = UringIo::make(&waiter, UncopiedSends::never);
  if (!made) {
    MESSAGE("skipped: " << made.error().context);
    return;
  }
  SocketIo& io = **made;
  // The ring is the thread's that turns first, and so is the filter.
  std::thread agent([&io] {
    io.poll();
    CHECK(io.prepare_sleep());
    io.poll();
    if (!count_enters()) {
      MESSAGE("skipped: no filter of system calls");
      return;
    }
    for (int i = 0; i < 10; ++i) io.poll();
    CHECK(enters == 0);
    // The bell is on from the last time, and a look was had behind its switch.
    CHECK(io.prepare_sleep());
    for (int i = 0; i < 10; ++i) io.poll();
    CHECK(enters == 0);
  });
  agent.join();
}

}  // namespace simm::transport::uring_io_test
