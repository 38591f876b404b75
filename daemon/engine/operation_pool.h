// OperationPool: the operations of one engine. They are large (about 350 KiB each, for 1,024
// pages), so they live in lazily touched address space. The one given back last is lent first: a
// light load stays in the same few cache lines.
// Thread: the data agent of the engine.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/free_slots.h"
#include "daemon/base/lazy_array.h"
#include "daemon/engine/operation.h"

namespace simm::engine {

class OperationPool {
public:
  // Throws std::bad_alloc when the address space can not be had.
  explicit OperationPool(std::uint32_t capacity);

  // nullptr: all are lent. Everything but pages, replies and key bytes is reset; those are as the
  // last borrower left them.
  Operation* allocate() noexcept;
  // Giving back what is not lent is our bug.
  void release(Operation& operation) noexcept;

  std::uint32_t index_of(const Operation& operation) const noexcept {
    return static_cast<std::uint32_t>(operations_.index_of(operation));
  }
  Operation& at(std::uint32_t index) noexcept { return operations_[index]; }
  std::uint32_t capacity() const noexcept { return free_.capacity(); }
  std::uint32_t lent() const noexcept { return free_.taken(); }

private:
  base::LazyArray<Operation> operations_;
  base::FreeSlots free_;
  std::unique_ptr<bool[]> is_lent_;
};

}  // namespace simm::engine
