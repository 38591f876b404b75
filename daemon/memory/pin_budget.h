// PinBudget: how much client memory may be mapped and pinned, in bytes and in regions. Budgets form
// a chain (session, tenant, whole daemon): a charge counts in each, and fails when any is
// exhausted. It is taken before anything is mapped or registered, and given back when the region
// has gone. Owned by the control thread's tables; a parent outlives its children, a budget its
// charges. Thread: any (regions end on registrar threads).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "simm/expected.h"

namespace simm::memory {

class PinBudget;

// What one region has taken. Gives it back when it goes.
class PinCharge {
public:
  PinCharge() noexcept = default;
  PinCharge(PinCharge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  PinCharge& operator=(PinCharge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinCharge();

private:
  friend class PinBudget;
  PinCharge(PinBudget* budget, std::uint64_t bytes) noexcept : budget_(budget), bytes_(bytes) {}

  PinBudget* budget_ = nullptr;
  std::uint64_t bytes_ = 0;
};

class PinBudget {
public:
  // `name` says in an error whose limit it was ("session", "tenant a", "daemon").
  PinBudget(std::string name, std::uint64_t bytes_max, std::uint64_t regions_max,
            PinBudget* parent = nullptr)
      : name_(std::move(name)), bytes_max_(bytes_max), regions_max_(regions_max), parent_(parent) {}
  PinBudget(const PinBudget&) = delete;
  PinBudget& operator=(const PinBudget&) = delete;

  // Charges one region of `bytes` bytes here and in every parent, or nowhere: out_of_memory.
  Expected<PinCharge> charge(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t regions() const noexcept {
    return regions_.load(std::memory_order_relaxed);
  }

private:
  friend class PinCharge;
  bool take(std::uint64_t bytes) noexcept;
  void give_back(std::uint64_t bytes) noexcept;

  const std::string name_;
  const std::uint64_t bytes_max_;
  const std::uint64_t regions_max_;
  PinBudget* const parent_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> regions_{0};
};

}  // namespace simm::memory
