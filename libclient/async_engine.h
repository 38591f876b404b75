// AsyncEngine: carries out asynchronous batches of all Clients on one socket, on lanes of its own.
// It has no thread: whoever starts a batch, polls or waits moves everything on a step, and hands
// what is done to the CompletionQueue of the Client that started it.
//
// One thread at a time works: it moves the lanes on and copies the bytes of staged regions, without
// the mutex, at most kCopyBytesMax at a time. A thread that comes meanwhile leaves its batch and
// goes on with its own things; the worker then goes round once more.
// Owned by Core. Thread: any; one mutex, which nobody holds while sleeping, copying or attaching.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "libclient/fork_mutex.h"
#include "libclient/lane_driver.h"
#include "libclient/lane_pool.h"
#include "libclient/link.h"
#include "simm/client.h"

namespace simm::detail {

class CompletionQueue;

struct AsyncBatch : BatchRun {
  CompletionQueue* queue = nullptr;
  Client::Callback callback;
  Completed completed;
  AsyncBatch* next_pending = nullptr;    // CompletionQueue's, of the same bucket
  AsyncBatch* next_cancelled = nullptr;  // AsyncEngine's
  bool cancel_asked = false;             // under the engine's mutex
  // --- of a batch that tells its pages; CompletionQueue's
  std::shared_ptr<PageEnds> ends;
  AsyncBatch* next_untold = nullptr;
  bool is_listed = false;   // as one with pages to be told
  bool is_telling = false;  // a thread is at it
};

// What a thread looks at that moves the engine on.
enum class Look : std::uint8_t {
  lanes,  // at the answers of the daemon: no system call while there are none
  bell,   // also whether the daemon has rung or gone: before a sleep, and for whoever was woken
};

class AsyncEngine {
public:
  // After so many bytes a worker leaves the rest to the next one: a call that wanted something else
  // is not held up by the copies of others. One submission, or one page larger than that, is whole.
  static constexpr std::uint64_t kCopyBytesMax = 8ull << 20;

  AsyncEngine(Link& link, LanePool& pool, LaneDriver& driver) noexcept
      : link_(link), pool_(pool), driver_(driver) {}

  void add_queue(CompletionQueue* queue);
  void remove_queue(CompletionQueue* queue) noexcept;  // nothing of it is pending

  // Takes the batch over; it comes back through its queue, perhaps at once.
  void start(std::unique_ptr<AsyncBatch> batch, bool reattach);
  // Moves everything on, as far as it goes without waiting. `caller` (may be null) needs no signal
  // for what is handed to it.
  void advance(CompletionQueue* caller, bool reattach, Look look = Look::bell);

  // Ends the queue's batch as soon as its memory is free. False: it has ended, or there is none.
  bool cancel(CompletionQueue& queue, std::uint64_t ticket, bool reattach);

  // So many descriptors and threads want to be woken by the daemon: while there are none, it is
  // not asked to. Who comes calls advance() before sleeping.
  void want_bell() noexcept { bell_users_.fetch_add(1, std::memory_order_relaxed); }
  void leave_bell() noexcept { bell_users_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] ForkMutex& mutex() noexcept { return mutex_; }
  // Under the mutex: a worker left something that could be done at once.
  [[nodiscard]] bool has_more() const noexcept { return has_more_; }

  void after_fork_child() noexcept;  // with the mutex held

private:
  class Turn;  // of the thread that works

  void work(std::unique_lock<ForkMutex>& lock, CompletionQueue* caller, bool reattach, Look look);
  // Under the mutex, while nobody works: a look at the lanes would find something to do.
  [[nodiscard]] bool has_news() const noexcept;
  [[nodiscard]] bool bell_wanted() const noexcept {
    return bell_users_.load(std::memory_order_relaxed) != 0;
  }
  void take_arrived();
  void end_cancelled();
  void tell_queues() noexcept;
  // When something must be looked at even if nothing happens. kNoDeadlineNs: never.
  [[nodiscard]] std::uint64_t next_look_ns() noexcept;
  void step(bool reattach);
  void look_at_session() noexcept;
  void watch(Lane& lane, std::uint64_t now_ns) noexcept;
  // The daemon has hung up: ends the lane once nothing can touch the pages in flight any more.
  void end_hung_up(Lane& lane, std::uint64_t now_ns) noexcept;
  void end_lane(Lane& lane, Status reason) noexcept;
  void submit_waiting(bool reattach, std::uint64_t now_ns);
  bool push(AsyncBatch& batch);
  void spend(std::uint64_t copied) noexcept { copy_left_ -= std::min(copy_left_, copied); }
  // Batches with pages for another attempt wait for room again.
  void take_up_again();
  void time_out_waiting(std::uint64_t now_ns);
  void deliver(CompletionQueue* caller);
  // False: something completed while announcing.
  bool announce() noexcept;

  Link& link_;
  LanePool& pool_;
  LaneDriver& driver_;
  std::atomic<std::uint32_t> bell_users_{0};

  ForkMutex mutex_;
  std::vector<CompletionQueue*> queues_;
  std::deque<AsyncBatch*> arrived_;  // for the worker
  AsyncBatch* cancelled_ = nullptr;  // asked for, none of them delivered yet
  bool reattach_wanted_ = false;     // by whoever came
  bool bell_look_wanted_ = false;    // the same
  bool is_working_ = false;
  bool has_visitor_ = false;  // somebody came while a thread worked
  bool has_more_ = false;

  // --- the worker's
  std::deque<AsyncBatch*> waiting_;  // not wholly submitted, oldest first
  FinishedRuns finished_;
  PageEnds* news_ = nullptr;  // batches with pages that have ended, to be published
  std::uint32_t next_lane_ = 0;
  std::uint32_t next_watched_ = 0;  // with which lane a step begins
  std::uint64_t last_look_ns_ = 0;
  std::uint64_t copy_left_ = 0;
};

}  // namespace simm::detail
