// FreeSlots: which entries of a table are free. A stack: what was used last is taken first, because
// its memory is warm; from the start the lowest comes first. Owned by the table. No allocation
// after construction. Thread: the table's.
#pragma once

#include <cstdint>
#include <memory>

#include "simm/check.h"

namespace simm::base {

class FreeSlots {
public:
  explicit FreeSlots(std::uint32_t capacity)
      : capacity_(capacity), slots_(std::make_unique<std::uint32_t[]>(capacity)) {
    reset();
  }

  // All are free again.
  void reset() noexcept {
    for (std::uint32_t i = 0; i < capacity_; ++i) slots_[i] = capacity_ - 1 - i;
    count_ = capacity_;
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t taken() const noexcept { return capacity_ - count_; }
  // What take() returns. Only when one is free, as take().
  [[nodiscard]] std::uint32_t next() const noexcept {
    SIMM_CHECK(count_ > 0);
    return slots_[count_ - 1];
  }
  [[nodiscard]] std::uint32_t take() noexcept {
    const std::uint32_t slot = next();
    --count_;
    return slot;
  }
  void give(std::uint32_t slot) noexcept {
    SIMM_CHECK(count_ < capacity_);
    slots_[count_++] = slot;
  }

private:
  const std::uint32_t capacity_;
  std::unique_ptr<std::uint32_t[]> slots_;
  std::uint32_t count_ = 0;
};

}  // namespace simm::base
