// HugePool: a pool of free 2 MiB huge pages for one test, which may also empty it. The old size of
// the pool comes back however the test ends, a crash included (a child process sees to that), and
// one test at a time has the pool, in whatever process. Needs root. Thread: the test's.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "ipc/fd.h"

namespace simm::test_support {

class HugePool {
public:
  static constexpr std::uint64_t kPageBytes = 2 * 1024 * 1024;

  // Waits for its turn and makes at least `pages` of them free.
  explicit HugePool(std::uint64_t pages);
  ~HugePool();
  HugePool(const HugePool&) = delete;
  HugePool& operator=(const HugePool&) = delete;

  // False: not here (no root, no huge pages in this kernel, no memory in such large pieces). The
  // test has been told so by a MESSAGE and returns.
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  [[nodiscard]] std::uint64_t free_pages() const;
  // Takes every page out of the pool that is not in use. True when none is free any more.
  [[nodiscard]] bool take_free_pages();

private:
  bool ready_ = false;
  pid_t guardian_ = -1;
  ipc::UniqueFd alive_;  // closed: the guardian restores the pool
};

}  // namespace simm::test_support
