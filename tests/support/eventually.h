// Thread: the test's.
#pragma once

#include <unistd.h>

#include <chrono>

namespace simm::test_support {

// Polls until `done`, for so long that only a defect is ever late, on a busy machine too.
template <typename Done>
bool eventually(Done&& done, int wait_ms = 60'000) {
  // By the clock, because a look may take long itself.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (std::chrono::steady_clock::now() < until) {
    if (done()) return true;
    ::usleep(5000);
  }
  return done();
}

}  // namespace simm::test_support
