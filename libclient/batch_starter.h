// BatchStarter: a thread, as one that starts asynchronous batches of one CompletionQueue. Its
// batches name it: where threads share a Client, another one may hand them back, and the starter,
// which sleeps in wait(), has to hear of that.
//
// Owned by its thread and by the batches. A thread has at most kQueuesMax: one that uses more
// Clients forgets some, and waits there as a thread that has started nothing. Thread: handed_back()
// any; all else the starter's own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simm::detail {

class BatchStarter {
public:
  static constexpr std::size_t kQueuesMax = 8;

  explicit BatchStarter(std::uint64_t queue) noexcept : queue_(queue) {}

  // A number for a new queue: 1, 2, 3 and so on.
  [[nodiscard]] static std::uint64_t number_queue() noexcept;
  // This thread in that queue; what was handed back until now is no news. Null while the thread
  // ends.
  [[nodiscard]] static std::shared_ptr<BatchStarter> begin(std::uint64_t queue);
  // The same, as it is. Null: it has started nothing there.
  [[nodiscard]] static BatchStarter* find(std::uint64_t queue) noexcept;

  // By another thread, once its callback is over.
  void handed_back() noexcept { handed_back_.fetch_add(1, std::memory_order_release); }
  [[nodiscard]] bool has_news() const noexcept {
    return handed_back_.load(std::memory_order_acquire) != seen_;
  }
  // So many batches were handed back since the last time, or since begin().
  std::size_t take_news() noexcept;

private:
  const std::uint64_t queue_;
  std::atomic<std::uint32_t> handed_back_{0};
  std::uint32_t seen_ = 0;
};

}  // namespace simm::detail
