// ProcessPulse: whether a process that gives no sign of life could give one at all. On a busy host
// a process may be ready to run and get no CPU for a second; such a process does not hang.
// Thread: one.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace simm::memory {

class ProcessPulse {
public:
  static constexpr std::size_t kThreadsMax = 64;  // more are not looked at

  // The process may end at any time, and starves no more then.
  explicit ProcessPulse(pid_t pid) noexcept : pid_(pid) {}

  // One of its threads is ready to run, and had no CPU since the last call. False for the first
  // call, and where /proc does not tell.
  [[nodiscard]] bool starves() noexcept;

private:
  struct Seen {
    pid_t thread = 0;
    std::uint64_t cpu_ns = 0;
    bool was_ready = false;
  };
  // Whether the thread starves, by what was seen of it before; it is noted in `now`.
  [[nodiscard]] bool starves(Seen& now) const noexcept;

  pid_t pid_;
  std::array<Seen, kThreadsMax> seen_{};
  std::size_t count_ = 0;
};

}  // namespace simm::memory
