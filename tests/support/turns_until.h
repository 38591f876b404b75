// turns_until(): gives `turn` its turns until `done`, and sleeps a millisecond after each one in
// which nothing was done (`turn` says so). False: not done after a minute, for so long that only a
// defect is ever late, on a busy machine too. Thread: the test's.
#pragma once

#include <unistd.h>

#include <chrono>

namespace simm::test_support {

template <typename Turn, typename Done>
bool turns_until(Turn&& turn, Done&& done) {
  // By the clock: a turn may take no time, or long.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    if (!turn()) ::usleep(1000);
  }
  return true;
}

}  // namespace simm::test_support
