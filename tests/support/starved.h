// starved(): what happens while a process is ready to run and gets no CPU.
// Thread: the test's.
#pragma once

#include <sched.h>

#include <cstddef>
#include <thread>

namespace simm::test_support {

// Runs `meanwhile` in a real-time thread on the one CPU that the process `pid` may use: the process
// gets nothing of that CPU. Keep it below a second, after which the kernel lets others in. False:
// this user may have no such thread, and nothing was run.
template <typename Meanwhile>
bool starved(pid_t pid, Meanwhile&& meanwhile) {
  cpu_set_t before;
  if (::sched_getaffinity(pid, sizeof before, &before) != 0) return false;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  bool is_real_time = false;
  std::thread([&] {
    const sched_param first{1};
    is_real_time = ::sched_setaffinity(0, sizeof one, &one) == 0 &&
                   ::sched_setscheduler(0, SCHED_FIFO, &first) == 0 &&
                   ::sched_setaffinity(pid, sizeof one, &one) == 0;
    if (is_real_time) meanwhile();
  }).join();
  (void)::sched_setaffinity(pid, sizeof before, &before);
  return is_real_time;
}

}  // namespace simm::test_support
