// TouchBudget: how many bytes of absent client pages the daemon may still make present by touching
// them, for one session. Such pages are charged to the daemon's memory cgroup, so a huge sparse
// region would otherwise be a way to have the daemon killed. Nothing is ever given back: the pages
// stay for as long as the client likes.
// Owned by the session; outlives its regions. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace simm::memory {

class TouchBudget {
public:
  explicit TouchBudget(std::uint64_t bytes) noexcept : left_(bytes) {}

  // False: not enough is left, nothing was taken.
  [[nodiscard]] bool take(std::uint64_t bytes) noexcept {
    std::uint64_t left = left_.load(std::memory_order_relaxed);
    while (bytes <= left) {
      if (left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed)) return true;
    }
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

  [[nodiscard]] std::uint64_t left_bytes() const noexcept {
    return left_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t refused_count() const noexcept {
    return refused_.load(std::memory_order_relaxed);
  }

private:
  std::atomic<std::uint64_t> left_;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace simm::memory
