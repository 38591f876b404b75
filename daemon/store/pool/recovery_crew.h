// RecoveryCrew: the threads that work on one recovery, how far it is, and whether it is to end
// early. Several shards have one crew each, so that they can be read back side by side.
// Owned by whoever recovers; outlives the recovery.
// Thread: run() by the thread that recovers; done(), total() and stop() by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace simm::store {

class RecoveryCrew {
public:
  explicit RecoveryCrew(std::uint32_t threads = 1) : threads_(threads == 0 ? 1 : threads) {}
  RecoveryCrew(const RecoveryCrew&) = delete;
  RecoveryCrew& operator=(const RecoveryCrew&) = delete;

  // In so many parts run() works at the same time.
  [[nodiscard]] std::uint32_t threads() const noexcept { return threads_; }

  // Calls `work` once with each number below `parts`, on up to threads() threads, the caller's
  // among them. Returns when all calls have. Where no thread can be had the caller does their work
  // too. What a call throws first (memory may end on any thread) is thrown here; parts that were
  // not begun by then are left out.
  void run(std::size_t parts, const std::function<void(std::size_t part)>& work);

  // Steps of the whole recovery; 0: not known yet.
  void expect(std::uint64_t steps) noexcept { total_.store(steps, std::memory_order_relaxed); }
  void advance(std::uint64_t steps) noexcept { done_.fetch_add(steps, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t total() const noexcept {
    return total_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t done() const noexcept {
    return done_.load(std::memory_order_relaxed);
  }

  // The recovery ends soon, with an error and with the memory as it was found.
  void stop() noexcept { stopping_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }

private:
  const std::uint32_t threads_;
  std::atomic<std::uint64_t> total_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace simm::store
