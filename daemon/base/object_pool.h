// ObjectPool<T>: a fixed number of objects made at set-up, lent out by index + generation handles.
// Objects are not destroyed between uses: the borrower resets what it needs, and buffers inside T
// are reused. A handle of an earlier use is recognised and answers null. O(1), no allocation.
// Thread: the agent that owns the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "simm/check.h"

namespace simm::base {

// Names one use of one object. Generation 0 is never given out: PoolHandle{} names nothing.
struct PoolHandle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;

  friend bool operator==(const PoolHandle&, const PoolHandle&) = default;
  [[nodiscard]] bool valid() const noexcept { return generation != 0; }

  // One word, to be carried where only a token fits.
  [[nodiscard]] std::uint64_t packed() const noexcept {
    return std::uint64_t{generation} << 32 | index;
  }
  static PoolHandle unpack(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }
};

template <typename T>
class ObjectPool {
public:
  explicit ObjectPool(std::uint32_t capacity)
      : capacity_(capacity), slots_(std::make_unique<Slot[]>(capacity)) {
    // Low indices first: a lightly used pool stays in few cache lines.
    for (std::uint32_t i = 0; i < capacity; ++i) slots_[i].next_free = i + 1;
  }

  // A free object, as its last borrower left it; an invalid handle when all are lent out.
  [[nodiscard]] PoolHandle acquire() noexcept {
    if (first_free_ == capacity_) return {};
    const std::uint32_t index = first_free_;
    Slot& slot = slots_[index];
    first_free_ = slot.next_free;
    slot.lent = true;
    ++lent_;
    return {index, slot.generation};
  }

  // The object, or null when this use of it has ended (or never was).
  [[nodiscard]] T* get(PoolHandle handle) noexcept {
    if (handle.index >= capacity_) return nullptr;
    Slot& slot = slots_[handle.index];
    return slot.lent && slot.generation == handle.generation ? &slot.object : nullptr;
  }

  // Ends this use. The handle must be current: a double release is our bug.
  void release(PoolHandle handle) noexcept {
    SIMM_CHECK(get(handle) != nullptr);
    Slot& slot = slots_[handle.index];
    slot.lent = false;
    if (++slot.generation == 0) slot.generation = 1;
    slot.next_free = first_free_;
    first_free_ = handle.index;
    --lent_;
  }

  // The handle of a lent object by its index: for sweeps over all of them. Invalid when it is free.
  [[nodiscard]] PoolHandle handle_at(std::uint32_t index) const noexcept {
    if (index >= capacity_ || !slots_[index].lent) return {};
    return {index, slots_[index].generation};
  }

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint32_t lent() const noexcept { return lent_; }

private:
  struct Slot {
    T object{};
    std::uint32_t generation = 1;
    std::uint32_t next_free = 0;
    bool lent = false;
  };

  const std::uint32_t capacity_;
  const std::unique_ptr<Slot[]> slots_;
  std::uint32_t first_free_ = 0;
  std::uint32_t lent_ = 0;
};

}  // namespace simm::base
