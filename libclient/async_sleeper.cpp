#include "libclient/async_sleeper.h"

#include <atomic>
#include <utility>

#include "ipc/client_lane.h"
#include "ipc/futex.h"

namespace simm::detail {

void AsyncSleeper::fall_asleep(std::shared_ptr<Session> on) noexcept {
  session_ = std::move(on);
  is_woken_ = 0;
  is_asleep_ = true;
}

void AsyncSleeper::sleep(std::uint32_t lane, std::uint64_t until_ns) noexcept {
  if (session_ == nullptr) {
    (void)ipc::futex_wait(&is_woken_, 0, until_ns);
    return;
  }
  // The word of the lane alone: the cursors are those of whoever works.
  ipc::ClientLane word(session_->lane(lane));
  (void)word.sleep_on_futex(until_ns);
}

void AsyncSleeper::wake_up() noexcept {
  is_asleep_ = false;
  session_.reset();
}

void AsyncSleeper::wake(std::uint32_t lane) noexcept {
  if (!std::exchange(is_asleep_, false)) return;
  if (session_ != nullptr) {
    ipc::ClientLane(session_->lane(lane)).interrupt();
    return;
  }
  std::atomic_ref(is_woken_).store(1, std::memory_order_release);
  ipc::futex_wake_one(&is_woken_);
}

}  // namespace simm::detail
