#include "ipc/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace simm::ipc {
namespace {
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
}

std::uint64_t monotonic_now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

bool futex_wait(std::uint32_t* word, std::uint32_t value, std::uint64_t deadline_ns) noexcept {
  timespec deadline{};
  deadline.tv_sec = static_cast<time_t>(deadline_ns / kNsPerSecond);
  deadline.tv_nsec = static_cast<long>(deadline_ns % kNsPerSecond);
  const timespec* const limit = deadline_ns == kNoDeadlineNs ? nullptr : &deadline;
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time; FUTEX_WAIT takes a relative one.
  const long rc =
      syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
  return !(rc == -1 && errno == ETIMEDOUT);
}

void futex_wake_one(std::uint32_t* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace simm::ipc
