#include "daemon/tools/simm-bench/process_cpu.h"

#include <time.h>

#include <cerrno>
#include <string>

namespace simm::bench {

Expected<std::uint64_t> cpu_time_ns(pid_t pid) {
  clockid_t clock = 0;
  timespec time{};
  const int error = clock_getcpuclockid(pid, &clock);
  if (error != 0 || clock_gettime(clock, &time) != 0) {
    return system_error("CPU clock of process " + std::to_string(pid), error != 0 ? error : errno);
  }
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace simm::bench
