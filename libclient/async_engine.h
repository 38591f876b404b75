// AsyncEngine: carries out asynchronous batches of all Clients on one socket, on lanes of its own.
// It has no thread: whoever starts a batch, polls or waits moves everything on a step, and hands
// what is done to the CompletionQueue of the Client that started it. Owned by Core. Thread: any;
// one mutex, which nobody holds while sleeping.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
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
};

class AsyncEngine {
public:
  AsyncEngine(Link& link, LanePool& pool, LaneDriver& driver) noexcept
      : link_(link), pool_(pool), driver_(driver) {}

  void add_queue(CompletionQueue* queue);
  void remove_queue(CompletionQueue* queue) noexcept;  // nothing of it is pending

  // Takes the batch over; it comes back through its queue, perhaps at once.
  void start(std::unique_ptr<AsyncBatch> batch, bool reattach);
  // Moves everything on, as far as it goes without waiting. `caller` (may be null) needs no signal
  // for what is handed to it.
  void advance(CompletionQueue* caller, bool reattach);

  // The queues' descriptors want bell messages, from now on.
  void want_bell() noexcept { bell_wanted_ = true; }
  [[nodiscard]] ForkMutex& mutex() noexcept { return mutex_; }
  // Under the mutex: when something must be looked at even if nothing happens. kNoDeadlineNs:
  // never.
  [[nodiscard]] std::uint64_t next_look_ns() noexcept;

  void after_fork_child() noexcept;  // with the mutex held

private:
  void step(bool reattach);
  void look_at_session() noexcept;
  void watch(Lane& lane, std::uint64_t now_ns) noexcept;
  // The daemon has hung up: ends the lane once nothing can touch the pages in flight any more.
  void end_hung_up(Lane& lane, std::uint64_t now_ns) noexcept;
  void end_lane(Lane& lane, Status reason) noexcept;
  void submit_waiting(bool reattach, std::uint64_t now_ns);
  bool push(AsyncBatch& batch);
  // Batches with pages for another attempt wait for room again.
  void take_up_again();
  void time_out_waiting(std::uint64_t now_ns);
  void deliver(CompletionQueue* caller);
  // False: something completed while announcing.
  bool announce() noexcept;

  Link& link_;
  LanePool& pool_;
  LaneDriver& driver_;
  ForkMutex mutex_;
  std::deque<AsyncBatch*> waiting_;  // not wholly submitted, oldest first
  FinishedRuns finished_;
  std::vector<CompletionQueue*> queues_;
  std::uint32_t next_lane_ = 0;
  std::uint64_t last_look_ns_ = 0;
  bool bell_wanted_ = false;
};

}  // namespace simm::detail
