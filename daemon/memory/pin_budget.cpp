#include "daemon/memory/pin_budget.h"

#include "ipc/range.h"

namespace simm::memory {

namespace {

// Adds unless the sum would pass the limit.
bool add_within(std::atomic<std::uint64_t>& value, std::uint64_t add, std::uint64_t most) noexcept {
  std::uint64_t now = value.load(std::memory_order_relaxed);
  while (ipc::range_within(now, add, most)) {
    if (value.compare_exchange_weak(now, now + add, std::memory_order_relaxed)) return true;
  }
  return false;
}

}  // namespace

PinCharge::~PinCharge() {
  for (PinBudget* budget = budget_; budget != nullptr; budget = budget->parent_) {
    budget->give_back(bytes_);
  }
}

bool PinBudget::take(std::uint64_t bytes) noexcept {
  if (!add_within(regions_, 1, regions_max_)) return false;
  if (add_within(bytes_, bytes, bytes_max_)) return true;
  regions_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void PinBudget::give_back(std::uint64_t bytes) noexcept {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  regions_.fetch_sub(1, std::memory_order_relaxed);
}

Expected<PinCharge> PinBudget::charge(std::uint64_t bytes) {
  for (PinBudget* budget = this; budget != nullptr; budget = budget->parent_) {
    if (budget->take(bytes)) continue;
    for (PinBudget* taken = this; taken != budget; taken = taken->parent_) taken->give_back(bytes);
    return Error{Status::out_of_memory,
                 "pin budget of the " + budget->name_ + ": a region of " + std::to_string(bytes) +
                     " bytes beside " + std::to_string(budget->bytes()) + " bytes in " +
                     std::to_string(budget->regions()) + " regions, at most " +
                     std::to_string(budget->bytes_max_) + " bytes in " +
                     std::to_string(budget->regions_max_)};
  }
  return PinCharge(this, bytes);
}

}  // namespace simm::memory
