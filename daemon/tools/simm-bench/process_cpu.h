// CPU time of another process. Thread: any.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "simm/expected.h"

namespace simm::bench {

// What all its threads have used so far, in the kernel and outside of it.
Expected<std::uint64_t> cpu_time_ns(pid_t pid);

}  // namespace simm::bench
