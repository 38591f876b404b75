#include "daemon/engine/operation_pool.h"

#include "simm/check.h"

namespace simm::engine {

OperationPool::OperationPool(std::uint32_t capacity)
    : operations_(capacity), free_(capacity), is_lent_(std::make_unique<bool[]>(capacity)) {}

Operation* OperationPool::allocate() noexcept {
  if (free_.count() == 0) return nullptr;
  const std::uint32_t index = free_.take();
  is_lent_[index] = true;
  Operation& operation = operations_[index];
  // Field by field: assigning a fresh Operation would write all its pages.
  operation.header = {};
  operation.owner = nullptr;
  operation.owner_data = 0;
  operation.client_token = 0;
  operation.page_count = 0;
  operation.page_first = 0;
  operation.is_fetch = operation.has_hashes = operation.may_be_late = false;
  operation.is_replica = false;
  operation.other = nullptr;
  operation.cancel_ns = 0;
  operation.requests_open = 0;
  operation.status = Status::ok;
  operation.bytes_moved = 0;
  return &operation;
}

void OperationPool::release(Operation& operation) noexcept {
  const std::uint32_t index = index_of(operation);
  SIMM_CHECK(is_lent_[index]);
  is_lent_[index] = false;
  free_.give(index);
}

}  // namespace simm::engine
