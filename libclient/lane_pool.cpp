#include "libclient/lane_pool.h"

#include "ipc/futex.h"

namespace simm::detail {
namespace {

std::atomic<std::uint32_t> next_thread{0};
// Where this thread starts to look for a lane: its last one. Threads begin at different ones.
thread_local std::uint32_t lane_hint = next_thread.fetch_add(1, std::memory_order_relaxed);

// SAFETY: std::atomic<std::uint32_t> is a plain word on every platform that has futexes.
std::uint32_t* futex_word(std::atomic<std::uint32_t>& word) noexcept {
  return reinterpret_cast<std::uint32_t*>(&word);
}

}  // namespace

void LanePool::configure(std::uint32_t lanes, std::uint32_t async_lanes, ipc::WaitMode wait) {
  lanes_.clear();
  for (std::uint32_t i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(i, wait));
  async_count_ = async_lanes;
  usable_.store(lanes, std::memory_order_relaxed);
}

Lane* LanePool::try_borrow() noexcept {
  const std::uint32_t count = usable_.load(std::memory_order_relaxed) - async_count_;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = (lane_hint + i) % count;
    Lane& lane = *lanes_[async_count_ + at];
    // The load keeps a taken lane's cache line where it is used.
    if (lane.busy.load(std::memory_order_seq_cst) == 0 &&
        lane.busy.exchange(1, std::memory_order_seq_cst) == 0) {
      lane_hint = at;
      return &lane;
    }
  }
  return nullptr;
}

Lane* LanePool::borrow(std::uint64_t deadline_ns) noexcept {
  if (Lane* lane = try_borrow()) return lane;
  waits_.fetch_add(1, std::memory_order_relaxed);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  Lane* lane = nullptr;
  for (;;) {
    const std::uint32_t seen = returns_.load(std::memory_order_seq_cst);
    lane = try_borrow();
    if (lane != nullptr || ipc::monotonic_now_ns() >= deadline_ns) break;
    ipc::futex_wait(futex_word(returns_), seen, deadline_ns);
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return lane;
}

void LanePool::give_back(Lane& lane) noexcept {
  // Store, then look for waiters; a waiter counts itself, then looks at `busy`: one sees the other.
  lane.busy.store(0, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  returns_.fetch_add(1, std::memory_order_seq_cst);
  ipc::futex_wake_one(futex_word(returns_));
}

void LanePool::unbind_idle(std::uint32_t generation) noexcept {
  for (std::size_t i = async_count_; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    const bool taken = lane.busy.load(std::memory_order_seq_cst) == 0 &&
                       lane.busy.exchange(1, std::memory_order_seq_cst) == 0;
    if (!taken) continue;
    if (lane.session != nullptr && lane.generation() != generation) lane.unbind();
    give_back(lane);
  }
}

void LanePool::after_fork_child() noexcept {
  waiters_.store(0, std::memory_order_relaxed);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->session) lane->session->close_in_child();
    lane->staging.forget();
    if (lane->staging_request) lane->staging_request->memory.forget();
    lane->unbind();
    lane->busy.store(0, std::memory_order_relaxed);
  }
}

}  // namespace simm::detail
