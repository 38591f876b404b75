// SpscMailbox: how agents talk. Bounded, lock-free, preallocated; neither side ever blocks: a full
// mailbox answers false and the sender keeps the message. Messages are small plain values (handles,
// pointers whose ownership moves with the message).
//
// Pushing does not wake a sleeping receiver: the sender calls Waiter::wake() afterwards.
//
// Source: a single-producer ring whose ends cache each other's cursor (as FastForward and Folly's
// ProducerConsumerQueue do).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "simm/check.h"

namespace simm::base {

inline constexpr std::size_t kSeparate = 128;  // the adjacent-line prefetcher works on 128 bytes

// One sending thread, one receiving thread. `capacity` is a power of two.
template <typename T>
class SpscMailbox {
  static_assert(std::is_trivially_copyable_v<T>, "a message is a plain value");

public:
  explicit SpscMailbox(std::size_t capacity)
      : mask_(capacity - 1), cells_(std::make_unique<T[]>(capacity)) {
    SIMM_CHECK(std::has_single_bit(capacity));
  }

  // Thread: the sender. False: full.
  [[nodiscard]] bool try_push(const T& message) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ > mask_) return false;
    }
    cells_[tail & mask_] = message;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Thread: the receiver. False: empty.
  [[nodiscard]] bool try_pop(T& message) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head == tail_seen_) return false;
    }
    message = cells_[head & mask_];
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Thread: the receiver. A false answer is certain, a true one may be outdated at once.
  [[nodiscard]] bool empty() const noexcept {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

private:
  const std::size_t mask_;
  const std::unique_ptr<T[]> cells_;
  alignas(kSeparate) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t head_seen_ = 0;  // the sender's last look at head_
  alignas(kSeparate) std::atomic<std::uint64_t> head_{0};
  std::uint64_t tail_seen_ = 0;  // the receiver's last look at tail_
};

}  // namespace simm::base
