// Which CPUs this process may use, and tying threads to one of them.
// Thread: any.
#pragma once

#include <vector>

namespace simm::bench {

// The CPUs that this process may run on, ascending. Never empty.
std::vector<int> allowed_cpus();

// Ties the calling thread (and what it starts later) to one CPU. A failure leaves it as it was.
void pin_this_thread(int cpu);

// Where the daemon and the workers of a measurement run: the daemon on the last CPU, workers in
// turn on the others. With a single CPU nothing is pinned (-1).
int daemon_cpu();
int worker_cpu(unsigned worker);

}  // namespace simm::bench
