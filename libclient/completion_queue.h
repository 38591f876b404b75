// CompletionQueue: what a Client sees of its asynchronous batches. It knows how many are pending
// and which are done, and has a descriptor that is readable when there is something to do.
//
// The descriptor is an epoll instance over an eventfd (something is done), the session's bell
// (something may be done), its attach socket (the daemon has gone) and a timer (the next deadline).
// The sockets leave the set when the session is given up, as they stay readable from then on.
// Made at the first completion_fd(): until then the daemon is not asked to ring. A wait() sleeps
// in the engine. Owned by its Client. Thread: any; the lists under the engine's mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "ipc/fd.h"
#include "ipc/spin_budget.h"
#include "libclient/async_engine.h"
#include "simm/client.h"

namespace simm::detail {

class CompletionQueue final : public BatchOwner {
public:
  explicit CompletionQueue(AsyncEngine& engine);
  // Waits until nothing is pending; callbacks are not called.
  ~CompletionQueue() override;
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // This thread, for a batch that it is about to start.
  [[nodiscard]] std::shared_ptr<BatchStarter> starter() const {
    return BatchStarter::begin(number_);
  }
  // A ticket for a new batch, which is then pending; 0 when there are too many.
  [[nodiscard]] std::uint64_t begin() noexcept;
  void start(std::unique_ptr<AsyncBatch> batch, bool reattach) {
    engine_.start(std::move(batch), reattach);
  }
  std::size_t poll(bool reattach);
  std::size_t drain(std::span<Completed> out, bool reattach);
  void wait(std::uint32_t timeout_ms, WaitMode mode, bool reattach);
  std::size_t wait_at_least(std::size_t count, std::uint32_t timeout_ms, WaitMode mode,
                            bool reattach);
  [[nodiscard]] bool has_completed(std::uint64_t ticket, bool reattach);
  // False: the batch has ended, or there is none with that ticket.
  bool cancel(std::uint64_t ticket, bool reattach) {
    return engine_.cancel(*this, ticket, reattach);
  }
  [[nodiscard]] int fd();
  [[nodiscard]] std::size_t pending() const noexcept {
    return pending_.load(std::memory_order_acquire);
  }

  // ---- the engine's, under its mutex ----
  void add_pending(AsyncBatch& batch) noexcept override;
  // The descriptors follow the session and the next time to look, once the turn is over.
  void want_watch() noexcept override { wants_watch_ = true; }
  [[nodiscard]] AsyncBatch* find_pending(std::uint64_t ticket) const noexcept override;
  void pages_ended(AsyncBatch& batch) noexcept override;
  void hand_over(std::unique_ptr<AsyncBatch> batch) override;
  void signal() noexcept override;
  [[nodiscard]] bool has_enough(std::size_t wanted) const noexcept override;
  void after_turn(const std::shared_ptr<Session>& session, std::uint64_t next_look_ns,
                  bool has_more) noexcept override;
  void after_fork_child() noexcept override;

private:
  class Spin;
  struct Round;
  class Telling;
  class Calling;

  void watch_session(const std::shared_ptr<Session>& session, std::uint64_t next_look_ns) noexcept;
  bool make_fds();
  void remove_pending(const AsyncBatch& batch) noexcept;
  void list_done(std::unique_ptr<AsyncBatch> batch);
  // Tells the pages that have ended, then calls the callbacks of the batches that are done: how
  // many.
  std::size_t call_back();
  void tell_pages();
  void list_untold(AsyncBatch& batch) noexcept;
  AsyncBatch* next_untold() noexcept;
  // This thread is not the one that has started the batch.
  [[nodiscard]] bool is_another(const std::shared_ptr<BatchStarter>& starter) const noexcept;
  // Under the mutex, by whoever has handed back something of the starter.
  void tell_starter(const std::shared_ptr<BatchStarter>& starter) noexcept;
  // So many batches of this thread were handed back by others.
  [[nodiscard]] std::size_t take_news() noexcept;
  void sleep(std::size_t wanted, std::uint64_t until_ns, bool reattach);
  std::size_t drop_done() noexcept;  // at the end: how many
  void settle() noexcept;            // after something was taken
  [[nodiscard]] bool anything_done() const noexcept {
    return first_untold_ != nullptr || !with_callback_.empty() || !without_callback_.empty();
  }

  AsyncEngine& engine_;
  const std::uint64_t number_ = BatchStarter::number_queue();
  std::atomic<std::size_t> pending_{0};
  std::atomic<std::uint64_t> next_ticket_{1};
  // Not done yet, chained by their tickets: at most 256 in each when all tickets are taken.
  static constexpr std::size_t kBuckets = 256;
  std::array<AsyncBatch*, kBuckets> unfinished_{};
  std::deque<std::unique_ptr<AsyncBatch>> with_callback_;
  std::deque<std::unique_ptr<AsyncBatch>> without_callback_;
  // Batches with pages that have ended and were not told, oldest first, but for those that a thread
  // tells at the moment.
  AsyncBatch* first_untold_ = nullptr;
  AsyncBatch* last_untold_ = nullptr;
  std::size_t untold_count_ = 0;
  AsyncBatch* over_ = nullptr;  // done, and not wholly told; chained by next_pending
  ipc::UniqueFd epoll_;
  ipc::UniqueFd event_;
  ipc::UniqueFd timer_;
  bool signalled_ = false;
  bool wants_watch_ = false;
  bool is_given_out_ = false;             // completion_fd() was called
  ipc::SpinBudget spin_budget_;           // of waits that are adaptive
  std::uint64_t timer_ns_ = 0;            // what it is armed for
  std::uint32_t watched_generation_ = 0;  // of the session whose descriptors are in the set
  std::weak_ptr<Session> watched_;
  // Outlives the queue while a callback runs, which may close the Client.
  const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace simm::detail
