// ProcessPulse: whether a process that gives no sign of life could give one at all. On a busy host
// a process may be ready to run and get no CPU for a second; such a process does not hang.
// Thread: one.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace simm::memory {

class ProcessPulse {
public:
  // Of the process's first thread. The process may end at any time, and starves no more then.
  explicit ProcessPulse(pid_t pid) noexcept : pid_(pid) {}

  // The thread is ready to run, and had no CPU since the last call. False for the first call, and
  // where /proc does not tell.
  [[nodiscard]] bool starves() noexcept;

private:
  pid_t pid_;
  std::uint64_t cpu_ns_ = 0;
  bool was_ready_ = false;
};

}  // namespace simm::memory
