// ProcessPulse: who is ready and gets no CPU starves; who sleeps, is stopped, works or is dead does
// not.
#include "daemon/memory/helper/process_pulse.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/starved.h"

using simm::memory::ProcessPulse;

namespace process_pulse_test {

// A child that works without an end, or sleeps; dead with this object.
struct Child {
  explicit Child(bool works) : pid(::fork()) {
    if (pid != 0) return;
    while (true) {
      if (!works) ::pause();
    }
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  const pid_t pid;
};

// Until it sleeps: before that it is ready, and on a busy machine it may have to wait for a CPU.
void await_sleep(const Child& child) {
  const auto sleeps = [&child] {
    std::ifstream file("/proc/" + std::to_string(child.pid) + "/stat");
    std::string line;
    std::getline(file, line);
    return line.find(") S ") != std::string::npos;
  };
  REQUIRE(simm::test_support::eventually(sleeps));
}

// How often of `looks` a child starved, one look each 20 ms.
int starved_looks(const Child& child, int looks) {
  ProcessPulse pulse(child.pid);
  int starved = 0;
  for (int look = 0; look < looks; ++look) {
    starved += pulse.starves() ? 1 : 0;
    ::usleep(20'000);
  }
  return starved;
}

}  // namespace process_pulse_test

TEST_CASE("process pulse: a process that sleeps, is stopped or is gone does not starve") {
  using namespace process_pulse_test;
  const Child sleeping(false);
  await_sleep(sleeping);
  CHECK(starved_looks(sleeping, 5) == 0);
  const Child stopped(true);
  REQUIRE(::kill(stopped.pid, SIGSTOP) == 0);
  siginfo_t state{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(stopped.pid), &state, WSTOPPED) == 0);
  CHECK(starved_looks(stopped, 5) == 0);
  pid_t gone = -1;
  {
    const Child child(true);
    gone = child.pid;
  }
  ProcessPulse pulse(gone);
  CHECK_FALSE(pulse.starves());
  CHECK_FALSE(pulse.starves());
}

TEST_CASE("process pulse: a process that is ready starves while another has its CPU") {
  using namespace process_pulse_test;
  const Child child(true);
  int starved = 0;
  const bool was_starved = simm::test_support::starved(child.pid, [&] {
    ProcessPulse pulse(child.pid);
    for (int look = 0; look < 1'000; ++look) starved += pulse.starves() ? 1 : 0;
  });
  if (!was_starved) {
    MESSAGE("SKIPPED: no right to a real-time thread");
    return;
  }
  CHECK(starved > 900);
  // And no more once it has had the CPU.
  ProcessPulse pulse(child.pid);
  (void)pulse.starves();
  clockid_t clock = 0;
  REQUIRE(::clock_getcpuclockid(child.pid, &clock) == 0);
  const auto used_ms = [&] {
    timespec used{};
    REQUIRE(::clock_gettime(clock, &used) == 0);
    return used.tv_sec * 1000 + used.tv_nsec / 1'000'000;
  };
  const auto before_ms = used_ms();
  while (used_ms() < before_ms + 30) ::usleep(1000);
  CHECK_FALSE(pulse.starves());
}

TEST_CASE("process pulse: one thread is enough, whatever the first one does") {
  using namespace process_pulse_test;
  const pid_t child = ::fork();
  if (child == 0) {
    // On the CPU that will be another one's.
    cpu_set_t all;
    cpu_set_t one;
    CPU_ZERO(&one);
    (void)::sched_getaffinity(0, sizeof all, &all);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    }
    (void)::sched_setaffinity(0, sizeof one, &one);
    std::thread worker([] {
      for (volatile bool works = true; works;) {
      }
    });
    for (;;) ::pause();
  }
  clockid_t clock = 0;
  REQUIRE(::clock_getcpuclockid(child, &clock) == 0);
  for (timespec used{}; used.tv_sec == 0 && used.tv_nsec < 30'000'000; ::usleep(1000)) {
    REQUIRE(::clock_gettime(clock, &used) == 0);
  }
  int starved = 0;
  const bool was_starved = simm::test_support::starved(child, [&] {
    ProcessPulse pulse(child);
    for (int look = 0; look < 1'000; ++look) starved += pulse.starves() ? 1 : 0;
  });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (was_starved) CHECK(starved > 900);
}
