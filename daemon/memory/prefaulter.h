// Prefaulter: makes the pages of the pool present before somebody needs them, on threads of its
// own, while the pool is in use already. A piece (32 MiB) is one call of the kernel, so whoever
// touches a page meanwhile waits for that page at most, and a stop for one piece of each thread.
// Shards have their turns: each fills its own part from the beginning, so what is needed first is
// there first. What pages hold is not changed. Owned by DataAgents.
// Thread: made, started and stopped on the control thread; the progress is reported from its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "daemon/base/counters.h"

namespace simm::memory {

struct PrefaultProgress {
  std::uint64_t done_bytes = 0;
  std::uint64_t bytes = 0;
  // 0: all is well. Else the errno of the kernel's refusal: this was the last report, and what is
  // missing comes when it is first touched.
  int failure = 0;
};

class Prefaulter {
public:
  static constexpr std::size_t kPieceBytes = std::size_t{32} << 20;
  // One report for every tenth of the memory, in order, none twice; from any of the threads.
  using OnProgress = std::function<void(const PrefaultProgress&)>;

  // `memory`: of `shards` parts of the same length, 1 at least; outlives it. `done`: counts the
  // bytes that are present.
  Prefaulter(std::span<std::byte> memory, std::uint32_t shards, base::Counter done,
             OnProgress on_progress);
  // Stops and waits.
  ~Prefaulter();
  Prefaulter(const Prefaulter&) = delete;
  Prefaulter& operator=(const Prefaulter&) = delete;

  // Once. `threads` at least 1; fewer when the system refuses one. False: it has none at all.
  [[nodiscard]] bool start(std::uint32_t threads);
  // Every thread ends after the piece that it is at; the rest stays undone. From any thread.
  void request_stop() noexcept { stopping_.store(true, std::memory_order_relaxed); }
  // Returns when no thread is left: everything is done, or failed, or a stop was requested.
  void wait() noexcept;

private:
  void work() noexcept;
  void report(std::uint64_t piece_bytes, int failure);

  const std::span<std::byte> memory_;
  const std::uint32_t shards_;
  base::Counter done_;
  const OnProgress on_progress_;
  std::atomic<std::uint64_t> next_{0};  // piece
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // of what follows
  std::uint64_t done_bytes_ = 0;
  std::uint64_t tenths_reported_ = 0;
  bool failed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace simm::memory
