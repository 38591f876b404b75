#include "daemon/tools/simm-bench/pinning.h"

#include <sched.h>

#include <cstddef>

namespace simm::bench {

std::vector<int> allowed_cpus() {
  // What we were started with: a worker that has been pinned still answers for the whole process.
  static const std::vector<int> cpus = [] {
    std::vector<int> found;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) found.push_back(cpu);
      }
    }
    if (found.empty()) found.push_back(0);
    return found;
  }();
  return cpus;
}

void pin_this_thread(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

int daemon_cpu() {
  const std::vector<int> cpus = allowed_cpus();
  return cpus.size() < 2 ? -1 : cpus.back();
}

int worker_cpu(unsigned worker) {
  const std::vector<int> cpus = allowed_cpus();
  return cpus.size() < 2 ? -1 : cpus[static_cast<std::size_t>(worker) % (cpus.size() - 1)];
}

}  // namespace simm::bench
