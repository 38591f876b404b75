// IndexQueue: a queue of small numbers, each at most once: who is next. No allocation after
// construction; the user knows what is on it. Thread: its owner's.
#pragma once

#include <cstdint>
#include <memory>

#include "simm/check.h"

namespace simm::transport {

class IndexQueue {
public:
  explicit IndexQueue(std::uint32_t capacity)
      : capacity_(capacity), indexes_(std::make_unique<std::uint32_t[]>(capacity)) {}

  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  void push(std::uint32_t index) noexcept {
    SIMM_CHECK(count_ < capacity_);
    indexes_[(first_ + count_) % capacity_] = index;
    ++count_;
  }
  [[nodiscard]] std::uint32_t front() const noexcept { return indexes_[first_]; }
  std::uint32_t pop() noexcept {
    SIMM_CHECK(count_ > 0);
    const std::uint32_t index = indexes_[first_];
    first_ = (first_ + 1) % capacity_;
    --count_;
    return index;
  }
  void clear() noexcept { first_ = count_ = 0; }

private:
  const std::uint32_t capacity_;
  std::unique_ptr<std::uint32_t[]> indexes_;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace simm::transport
