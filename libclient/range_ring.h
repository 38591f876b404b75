// RangeRing: gives out contiguous ranges of [0, capacity) and takes them back in the order given.
// For the page descriptors, key bytes and staging memory of a lane: allocated by submissions, freed
// when the oldest submission is done. Starts again at 0 whenever it is empty, so that a lane with
// one call at a time always uses the same cache lines.
// Thread: the one that borrowed the lane. Units: the caller's.
#pragma once

#include <cstdint>

namespace simm::detail {

class RangeRing {
public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  explicit RangeRing(std::uint64_t capacity) noexcept : capacity_(capacity) {}

  struct Room {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  // The place where up to `wanted` fit best: behind the last range, or at the start when the rest
  // there is too short. Does not take it.
  [[nodiscard]] Room room(std::uint64_t wanted) const noexcept {
    // One unit stays free in front of head_: head_ == tail_ means empty.
    if (tail_ < head_) return {tail_, head_ - tail_ - 1};
    const Room behind{tail_, capacity_ - tail_};
    const Room start{0, head_ == 0 ? 0 : head_ - 1};
    return behind.length >= wanted || behind.length >= start.length ? behind : start;
  }

  // Takes `length` > 0 units at an offset that room() gave, no longer than the room was.
  void take(std::uint64_t offset, std::uint64_t length) noexcept { tail_ = offset + length; }

  // Both: the offset, or kNone when `length` units do not fit now.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t length) noexcept {
    const Room found = room(length);
    if (found.length < length) return kNone;
    take(found.offset, length);
    return found.offset;
  }

  // Where the last range ends: what free_to() needs to give back everything up to it.
  [[nodiscard]] std::uint64_t mark() const noexcept { return tail_; }
  // Gives back what was taken since `mark`, newest first; nothing was freed in between.
  void rollback(std::uint64_t mark) noexcept { tail_ = mark; }
  // Gives back every range up to `mark`, oldest first.
  void free_to(std::uint64_t mark) noexcept {
    head_ = mark;
    if (head_ == tail_) head_ = tail_ = 0;
  }
  void clear() noexcept { head_ = tail_ = 0; }

  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }

private:
  std::uint64_t capacity_;
  std::uint64_t head_ = 0;  // first unit in use
  std::uint64_t tail_ = 0;  // behind the last unit in use
};

}  // namespace simm::detail
