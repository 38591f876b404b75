// LanePool: the lanes of the process on one socket. The first async_count of them belong to
// AsyncEngine; a synchronous call borrows one of the others for its time. A thread tries the lane
// it had last, so that threads that are no more than lanes never meet. When all are taken, a caller
// sleeps until one is given back, inside its deadline.
// Thread: any; configure() while nobody uses the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "libclient/lane.h"

namespace simm::detail {

class LanePool {
public:
  void configure(std::uint32_t lanes, std::uint32_t async_lanes, ipc::WaitMode wait);
  // A session may have fewer lanes than were asked for: the rest is not lent.
  void set_usable(std::uint32_t lanes) noexcept {
    usable_.store(lanes < lanes_.size() ? lanes : static_cast<std::uint32_t>(lanes_.size()),
                  std::memory_order_relaxed);
  }

  // null: none became free before the deadline.
  [[nodiscard]] Lane* borrow(std::uint64_t deadline_ns) noexcept;
  void give_back(Lane& lane) noexcept;
  // Lanes that nobody uses let go of sessions other than that one, whose memory then goes.
  void unbind_idle(std::uint32_t generation) noexcept;

  [[nodiscard]] std::uint32_t async_count() const noexcept { return async_count_; }
  [[nodiscard]] Lane& async_lane(std::uint32_t index) noexcept { return *lanes_[index]; }
  [[nodiscard]] const std::vector<std::unique_ptr<Lane>>& all() const noexcept { return lanes_; }
  [[nodiscard]] std::uint64_t waits() const noexcept {
    return waits_.load(std::memory_order_relaxed);
  }
  void after_fork_child() noexcept;

private:
  Lane* try_borrow() noexcept;

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::uint32_t async_count_ = 0;
  std::atomic<std::uint32_t> usable_{0};
  std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::uint32_t> returns_{0};  // futex word of the waiters
  std::atomic<std::uint64_t> waits_{0};
};

}  // namespace simm::detail
