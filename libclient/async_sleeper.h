// AsyncSleeper: a thread that sleeps until an owner of asynchronous batches has enough of them. On
// its stack, and in the list of its AsyncEngine for as long as it waits.
// Thread: the sleeper's own, where it says so; all else under the engine's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libclient/async_batch.h"
#include "libclient/batch_starter.h"
#include "libclient/session.h"

namespace simm::detail {

struct AsyncSleeper {
  BatchOwner* owner = nullptr;
  std::size_t wanted = 0;
  const BatchStarter* starter = nullptr;  // the thread's, if it has started batches there
  AsyncSleeper* next = nullptr;

  [[nodiscard]] bool has_enough() const noexcept {
    return owner->has_enough(wanted) || (starter != nullptr && starter->has_news());
  }
  // On that lane, as its announcement says; null: until wake().
  void fall_asleep(std::shared_ptr<Session> on) noexcept;
  // The sleeper's, without the mutex. It may end early.
  void sleep(std::uint32_t lane, std::uint64_t until_ns) noexcept;
  void wake_up() noexcept;
  // Does nothing for one that was woken already.
  void wake(std::uint32_t lane) noexcept;
  // It sleeps, and not on its lane.
  [[nodiscard]] bool is_aside() const noexcept { return is_asleep_ && session_ == nullptr; }

private:
  bool is_asleep_ = false;
  std::shared_ptr<Session> session_;
  std::uint32_t is_woken_ = 0;  // a futex
};

}  // namespace simm::detail
