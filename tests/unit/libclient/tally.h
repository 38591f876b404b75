// Tally: what the calls of several threads came to, and who waits for them. Thread: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "fault_world.h"

namespace fault_test {

class Tally {
public:
  void note(bool is_hit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++(is_hit ? hits_ : failures_);
    changed_.notify_all();
  }
  // From now on. False: not within a time that is longer than any call takes.
  bool wait_for_hits(std::uint64_t more) { return wait_for(hits_, more); }
  bool wait_for_failures(std::uint64_t more) { return wait_for(failures_, more); }

private:
  bool wait_for(const std::uint64_t& number, std::uint64_t more) {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::uint64_t wanted = number + more;
    return changed_.wait_for(lock, std::chrono::milliseconds(kLongMs),
                             [&] { return number >= wanted; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t hits_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace fault_test
