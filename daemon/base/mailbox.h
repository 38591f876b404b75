// SpscMailbox and MpscMailbox: how agents talk. Bounded, lock-free, preallocated; neither side ever
// blocks: a full mailbox answers false and the sender keeps the message. Messages are small plain
// values (handles, pointers whose ownership moves with the message).
//
// Pushing does not wake a sleeping receiver: the sender calls Waiter::wake() afterwards.
//
// Sources: the SPSC ring caches the peer's cursor (as FastForward and Folly's ProducerConsumerQueue
// do); the MPSC ring is Vyukov's bounded queue with a sequence number per cell.
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

// Any number of sending threads, one receiving thread. `capacity` is a power of two, at least 2.
template <typename T>
class MpscMailbox {
  static_assert(std::is_trivially_copyable_v<T>, "a message is a plain value");

public:
  explicit MpscMailbox(std::size_t capacity)
      : mask_(capacity - 1), cells_(std::make_unique<Cell[]>(capacity)) {
    SIMM_CHECK(std::has_single_bit(capacity) && capacity >= 2);
    for (std::size_t i = 0; i < capacity; ++i) {
      cells_[i].sequence.store(i, std::memory_order_relaxed);
    }
  }

  // Thread: any. False: full.
  [[nodiscard]] bool try_push(const T& message) noexcept {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[tail & mask_];
      const std::uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
      const auto ahead = static_cast<std::int64_t>(sequence - tail);
      if (ahead < 0) return false;  // the receiver has not emptied this cell yet
      if (ahead > 0) {              // another sender was faster
        tail = tail_.load(std::memory_order_relaxed);
        continue;
      }
      if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed)) {
        cell.message = message;
        cell.sequence.store(tail + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // Thread: the receiver. False: empty, or the next sender is still writing (it wakes us after).
  [[nodiscard]] bool try_pop(T& message) noexcept {
    Cell& cell = cells_[head_ & mask_];
    if (cell.sequence.load(std::memory_order_acquire) != head_ + 1) return false;
    message = cell.message;
    cell.sequence.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return true;
  }

  // Thread: the receiver.
  [[nodiscard]] bool empty() const noexcept {
    return cells_[head_ & mask_].sequence.load(std::memory_order_acquire) != head_ + 1;
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

private:
  struct Cell {
    std::atomic<std::uint64_t> sequence{0};
    T message{};
  };

  const std::size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kSeparate) std::atomic<std::uint64_t> tail_{0};
  alignas(kSeparate) std::uint64_t head_ = 0;  // the receiver's own
};

}  // namespace simm::base
