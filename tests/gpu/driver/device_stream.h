// DeviceStream: work of the tests' driver in the order in which it was queued, on a thread of its
// own, which takes a random while for each piece. So nothing has happened when a call that queues
// something returns. Thread: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

namespace simm::cuda::testing {

class DeviceStream {
public:
  // Never destroyed: its thread runs until the process ends.
  explicit DeviceStream(std::uint64_t seed);

  // Returns the number of the piece: they are done in this order.
  std::uint64_t queue(std::function<void()> piece);
  [[nodiscard]] std::uint64_t last();
  [[nodiscard]] bool is_done(std::uint64_t piece);
  void wait_for(std::uint64_t piece);

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pieces_;
  std::uint64_t queued_ = 0;
  std::uint64_t done_ = 0;
  std::mt19937_64 random_;
};

}  // namespace simm::cuda::testing
