// AsyncEngine: carries out asynchronous batches of one or more Clients, on a lane of its own. It
// has no thread: whoever starts a batch, polls or waits moves everything on a step, and hands what
// is done to the BatchOwner that started it.
//
// One thread at a time works: it moves the lane on and copies the bytes of staged regions, without
// the mutex, at most kCopyBytesMax at a time. A thread that comes meanwhile leaves its batch and
// goes on with its own things; the worker then goes round once more.
// One thread at a time watches: it sleeps on the lane until the daemon has completed something. The
// others sleep until the batches are done that they wait for, or until they are to watch. The
// daemon rings the bell for descriptors only while nobody watches.
// Owned by AsyncEngines. Thread: any; one mutex, which nobody holds while sleeping, copying or
// attaching.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "libclient/async_batch.h"
#include "libclient/async_sleeper.h"
#include "libclient/fork_mutex.h"
#include "libclient/lane_driver.h"
#include "libclient/link.h"

namespace simm::detail {

// What a thread looks at that moves the engine on.
enum class Look : std::uint8_t {
  lanes,  // at the answers of the daemon: no system call while there are none
  bell,   // also whether the daemon has rung or gone: for whoever was woken by a descriptor
};

class AsyncEngine {
public:
  // After so many bytes a worker leaves the rest to the next one: a call that wanted something else
  // is not held up by the copies of others. One submission, or one page larger than that, is whole.
  static constexpr std::uint64_t kCopyBytesMax = 8ull << 20;

  AsyncEngine(Link& link, LaneDriver& driver, Lane& lane) noexcept
      : link_(link), driver_(driver), lane_(lane) {}
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;
  // The engines of a session are a ring: they share its bell.
  void set_next(AsyncEngine& next) noexcept { next_ = &next; }

  void add_owner(BatchOwner* owner);
  void remove_owner(BatchOwner* owner) noexcept;  // nothing of it is pending
  [[nodiscard]] std::size_t owners() noexcept;

  // Takes the batch over; it comes back through its owner, perhaps at once.
  void start(std::unique_ptr<AsyncBatch> batch, bool reattach);
  // Moves everything on, as far as it goes without waiting. `caller` (may be null) needs no signal
  // for what is handed to it.
  void advance(BatchOwner* caller, bool reattach, Look look = Look::bell);
  // Moves everything on until the sleeper has enough, or the time has passed.
  void sleep(AsyncSleeper& me, std::uint64_t until_ns, bool reattach);
  // Ends the owner's batch as soon as its memory is free. False: it has ended, or there is none.
  bool cancel(BatchOwner& owner, std::uint64_t ticket, bool reattach);

  [[nodiscard]] ForkMutex& mutex() noexcept { return mutex_; }
  // --- under the mutex
  // So many descriptors want to be woken by the daemon: while there are none, it is not asked to.
  // Whoever adds one calls advance() afterwards.
  void want_bell() noexcept { ++bell_users_; }
  void leave_bell() noexcept { --bell_users_; }
  // A worker left something that could be done at once.
  [[nodiscard]] bool has_more() const noexcept { return has_more_; }
  // Something of the owner has ended, or was taken by another thread.
  void wake_sleepers(const BatchOwner& owner) noexcept;
  // A batch of that thread was handed back, by another one.
  void wake_starter(const BatchStarter& starter) noexcept;

  void after_fork_child() noexcept;  // with the mutex held

private:
  class Turn;  // of the thread that works

  void work(std::unique_lock<ForkMutex>& lock, BatchOwner* caller, bool reattach, Look look);
  // Under the mutex, while nobody works: a look at the lane would find something to do.
  [[nodiscard]] bool has_news() const noexcept;
  [[nodiscard]] bool bell_wanted() const noexcept { return bell_users_ != 0; }
  void take_arrived();
  void end_cancelled();
  void after_turn() noexcept;
  // When something must be looked at even if nothing happens. kNoDeadlineNs: never.
  [[nodiscard]] std::uint64_t next_look_ns() noexcept;
  // The thread's part of sleep(), once: on the lane, or until it is woken.
  void watch(std::unique_lock<ForkMutex>& lock, AsyncSleeper& me, std::uint64_t until_ns) noexcept;
  void wake(AsyncSleeper& sleeper) noexcept { sleeper.wake(lane_.index()); }
  void hand_watch_over(std::unique_lock<ForkMutex>& lock, BatchOwner& owner);
  void bell_rang();  // read by the worker of another engine
  void step(bool reattach, bool announces);
  void look_at_session();
  void watch_lane(std::uint64_t now_ns) noexcept;
  // The daemon has hung up: ends the lane once nothing can touch the pages in flight any more.
  void end_hung_up(std::uint64_t now_ns) noexcept;
  void end_lane(Status reason) noexcept;
  void submit_waiting(bool reattach, std::uint64_t now_ns);
  bool push(AsyncBatch& batch);
  void spend(std::uint64_t copied) noexcept { copy_left_ -= std::min(copy_left_, copied); }
  // Batches with pages for another attempt wait for room again.
  void take_up_again();
  void time_out_waiting(std::uint64_t now_ns);
  void deliver(BatchOwner* caller);
  void tell(BatchOwner& owner) noexcept;  // another thread has something for it
  // False: something completed while announcing.
  bool announce() noexcept;

  Link& link_;
  LaneDriver& driver_;
  Lane& lane_;
  AsyncEngine* next_ = this;

  ForkMutex mutex_;
  std::vector<BatchOwner*> owners_;
  std::uint32_t bell_users_ = 0;
  AsyncSleeper* sleepers_ = nullptr;  // the oldest first
  AsyncSleeper* watcher_ = nullptr;   // one of them
  std::deque<AsyncBatch*> arrived_;   // for the worker
  AsyncBatch* cancelled_ = nullptr;   // asked for, none of them delivered yet
  bool reattach_wanted_ = false;      // by whoever came
  bool bell_look_wanted_ = false;     // the same
  bool is_working_ = false;
  bool has_visitor_ = false;  // somebody came while a thread worked
  bool has_more_ = false;

  // --- the worker's
  std::deque<AsyncBatch*> waiting_;  // not wholly submitted, oldest first
  FinishedRuns finished_;
  PageEnds* news_ = nullptr;  // batches with pages that have ended, to be published
  std::uint64_t last_look_ns_ = 0;
  std::uint64_t copy_left_ = 0;
};

}  // namespace simm::detail
