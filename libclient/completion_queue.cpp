#include "libclient/completion_queue.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "ipc/futex.h"
#include "libclient/units.h"

namespace simm::detail {
namespace {

// How long the end of a queue sleeps: a batch whose pages are being told tells nobody of its end.
constexpr std::uint64_t kNapNs = 5'000'000;

void add_to(int epoll, int fd, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  // Without this one the timer wakes the program, later.
  (void)::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void remove_from(int epoll, int fd) noexcept {
  // It can not fail: the set has the descriptor.
  (void)::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);
}

void add_session(const ipc::UniqueFd& epoll, Session& session) noexcept {
  if (!epoll) return;
  add_to(epoll.get(), session.bell().fd(), EPOLLIN);
  add_to(epoll.get(), session.control().fd(), EPOLLRDHUP);
}

void remove_session(const ipc::UniqueFd& epoll, Session& session) noexcept {
  if (!epoll) return;
  remove_from(epoll.get(), session.bell().fd());
  remove_from(epoll.get(), session.control().fd());
}

}  // namespace

CompletionQueue::CompletionQueue(AsyncEngine& engine) : engine_(engine) {
  engine_.add_owner(this);
}

CompletionQueue::~CompletionQueue() {
  while (pending() != 0) {
    engine_.advance(this, false);
    {
      const std::lock_guard lock(engine_.mutex());
      pending_.fetch_sub(drop_done(), std::memory_order_acq_rel);
      settle();
    }
    if (pending() != 0) sleep(1, ipc::monotonic_now_ns() + kNapNs, false);
  }
  engine_.remove_owner(this);
  if (is_given_out_) {
    const std::lock_guard lock(engine_.mutex());
    engine_.leave_bell();
  }
  closed_->store(true, std::memory_order_relaxed);
}

std::size_t CompletionQueue::drop_done() noexcept {
  std::size_t done = with_callback_.size() + without_callback_.size();
  while (next_untold() != nullptr) continue;
  for (; over_ != nullptr; ++done) {
    const std::unique_ptr<AsyncBatch> batch(over_);
    over_ = batch->next_pending;
  }
  with_callback_.clear();
  without_callback_.clear();
  return done;
}

std::uint64_t CompletionQueue::begin() noexcept {
  if (pending_.fetch_add(1, std::memory_order_acq_rel) >= Client::kPendingBatchesMax) {
    pending_.fetch_sub(1, std::memory_order_acq_rel);
    return 0;
  }
  return next_ticket_.fetch_add(1, std::memory_order_relaxed);
}

std::size_t CompletionQueue::poll(bool reattach) {
  engine_.advance(this, reattach);
  return call_back();
}

// Callbacks may start, poll and drain, so they run without the mutex. They may close the Client or
// throw, so each is taken on its own. Nothing of the queue is used after its end.
struct CompletionQueue::Round {
  CompletionQueue& queue;
  const std::shared_ptr<std::atomic<bool>> closed = queue.closed_;
  ~Round() {
    if (*closed) return;
    const std::lock_guard lock(queue.engine_.mutex());
    queue.settle();
  }
};

// A batch whose pages a thread tells: nobody else does, and the batch is not handed back meanwhile.
class CompletionQueue::Telling {
public:
  // Under the mutex.
  Telling(CompletionQueue& queue, AsyncBatch& batch) noexcept : queue_(queue), batch_(batch) {
    batch.is_telling = true;
  }
  ~Telling() {
    if (*closed_) return;
    const std::lock_guard lock(queue_.engine_.mutex());
    batch_.is_telling = false;
    queue_.tell_starter(batch_.starter);
    if (batch_.ends->has_untold()) {
      queue_.list_untold(batch_);
      return;
    }
    AsyncBatch** place = &queue_.over_;
    while (*place != nullptr && *place != &batch_) place = &(*place)->next_pending;
    if (*place == nullptr) return;
    *place = batch_.next_pending;
    queue_.list_done(std::unique_ptr<AsyncBatch>(&batch_));
    queue_.engine_.wake_sleepers(queue_);
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

private:
  CompletionQueue& queue_;
  AsyncBatch& batch_;
  const std::shared_ptr<std::atomic<bool>> closed_ = queue_.closed_;
};

// What ends only then waits for the next time, as in call_back().
void CompletionQueue::tell_pages() {
  const std::shared_ptr<std::atomic<bool>> closed = closed_;
  std::size_t most = SIZE_MAX;
  for (std::size_t told = 0; told < most && !*closed; ++told) {
    std::unique_lock lock(engine_.mutex());
    most = std::min(most, untold_count_ + told);
    AsyncBatch* const batch = next_untold();
    if (batch == nullptr) return;
    const Telling telling(*this, *batch);
    const std::shared_ptr<PageEnds> ends = batch->ends;  // the callback lies in there
    const std::size_t published = ends->published();
    const std::uint64_t ticket = batch->completed.ticket;
    lock.unlock();
    while (!*closed && ends->told() != published) {
      ends->tell_next(ticket, batch->pages.result(ends->next()));
    }
  }
}

void CompletionQueue::pages_ended(AsyncBatch& batch) noexcept {
  if (!batch.is_listed && !batch.is_telling) list_untold(batch);
}

void CompletionQueue::list_untold(AsyncBatch& batch) noexcept {
  batch.is_listed = true;
  batch.next_untold = nullptr;
  (last_untold_ != nullptr ? last_untold_->next_untold : first_untold_) = &batch;
  last_untold_ = &batch;
  ++untold_count_;
}

AsyncBatch* CompletionQueue::next_untold() noexcept {
  AsyncBatch* const batch = first_untold_;
  if (batch == nullptr) return nullptr;
  batch->is_listed = false;
  first_untold_ = batch->next_untold;
  if (first_untold_ == nullptr) last_untold_ = nullptr;
  --untold_count_;
  return batch;
}

// A batch whose callback runs, which may throw: then it has been handed back as well.
class CompletionQueue::Calling {
public:
  Calling(CompletionQueue& queue, AsyncBatch& batch) noexcept
      : queue_(queue), starter_(std::move(batch.starter)) {}
  ~Calling() {
    if (*closed_ || !queue_.is_another(starter_)) return;
    const std::lock_guard lock(queue_.engine_.mutex());
    queue_.tell_starter(starter_);
  }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

private:
  CompletionQueue& queue_;
  const std::shared_ptr<std::atomic<bool>> closed_ = queue_.closed_;
  const std::shared_ptr<BatchStarter> starter_;
};

std::size_t CompletionQueue::call_back() {
  const Round round{*this};
  tell_pages();
  std::size_t called = 0;
  // What is done only then waits for the next time: a callback may always start another batch.
  for (std::size_t most = SIZE_MAX; called < most && !*round.closed; ++called) {
    std::unique_ptr<AsyncBatch> batch;
    {
      const std::lock_guard lock(engine_.mutex());
      most = std::min(most, with_callback_.size() + called);
      if (with_callback_.empty()) break;
      batch = std::move(with_callback_.front());
      with_callback_.pop_front();
    }
    pending_.fetch_sub(1, std::memory_order_acq_rel);
    const Calling calling(*this, *batch);
    batch->callback(batch->completed);
  }
  return called;
}

bool CompletionQueue::is_another(const std::shared_ptr<BatchStarter>& starter) const noexcept {
  return starter != nullptr && starter.get() != BatchStarter::find(number_);
}

void CompletionQueue::tell_starter(const std::shared_ptr<BatchStarter>& starter) noexcept {
  if (!is_another(starter)) return;
  starter->handed_back();
  engine_.wake_starter(*starter);
}

std::size_t CompletionQueue::take_news() noexcept {
  BatchStarter* const starter = BatchStarter::find(number_);
  return starter != nullptr ? starter->take_news() : 0;
}

void CompletionQueue::sleep(std::size_t wanted, std::uint64_t until_ns, bool reattach) {
  AsyncSleeper me;
  me.owner = this;
  me.wanted = wanted;
  me.starter = BatchStarter::find(number_);
  engine_.sleep(me, until_ns, reattach);
}

std::size_t CompletionQueue::drain(std::span<Completed> out, bool reattach) {
  engine_.advance(this, reattach);
  const Round round{*this};
  tell_pages();
  if (*round.closed) return 0;
  const std::lock_guard lock(engine_.mutex());
  std::size_t taken = 0;
  for (; taken < out.size() && !without_callback_.empty(); ++taken) {
    out[taken] = without_callback_.front()->completed;
    tell_starter(without_callback_.front()->starter);
    without_callback_.pop_front();
  }
  pending_.fetch_sub(taken, std::memory_order_acq_rel);
  return taken;
}

// How a thread waits for batches: it looks again and again for a while, which may be 0, then
// sleeps.
class CompletionQueue::Spin {
public:
  Spin(CompletionQueue& queue, std::uint32_t timeout_ms, WaitMode mode) noexcept
      : queue_(queue),
        mode_(mode),
        start_ns_(ipc::monotonic_now_ns()),
        until_ns_(start_ns_ + timeout_ms * kNsPerMs) {}

  [[nodiscard]] std::uint64_t until_ns() const noexcept { return until_ns_; }
  // Nothing was there. False: sleep, or the time has passed.
  [[nodiscard]] bool goes_on(std::uint64_t now_ns) noexcept {
    if (mode_ == WaitMode::spin) return true;
    if (mode_ == WaitMode::event) return false;
    if (!has_begun_) {
      has_begun_ = true;
      const std::lock_guard lock(queue_.engine_.mutex());
      spin_ns_ = queue_.spin_budget_.next_ns();
    }
    if (now_ns - start_ns_ < spin_ns_) return true;
    if (spin_ns_ != 0) {
      const std::lock_guard lock(queue_.engine_.mutex());
      learn(false);
    }
    return false;
  }
  // Under the engine's mutex: once.
  void learn(bool answered_in_spin) noexcept {
    if (spin_ns_ == 0) return;
    queue_.spin_budget_.learn(std::exchange(spin_ns_, 0), answered_in_spin);
  }

private:
  CompletionQueue& queue_;
  const WaitMode mode_;
  const std::uint64_t start_ns_;
  const std::uint64_t until_ns_;
  std::uint64_t spin_ns_ = 0;
  bool has_begun_ = false;
};

void CompletionQueue::wait(std::uint32_t timeout_ms, WaitMode mode, bool reattach) {
  Spin spin(*this, timeout_ms, mode);
  for (;;) {
    if (pending() == 0) return;
    engine_.advance(this, reattach, Look::lanes);
    bool is_done = false;
    {
      const std::lock_guard lock(engine_.mutex());
      is_done = anything_done();
      if (is_done) spin.learn(true);
    }
    if (is_done) {
      (void)call_back();  // perhaps one of them closes the Client
      return;
    }
    if (take_news() != 0) return;
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    if (now_ns >= spin.until_ns()) return;
    if (!spin.goes_on(now_ns)) sleep(1, spin.until_ns(), reattach);
  }
}

// What lies ready already keeps completion_fd() readable, so nobody who wants more sleeps on that.
std::size_t CompletionQueue::wait_at_least(std::size_t count, std::uint32_t timeout_ms,
                                           WaitMode mode, bool reattach) {
  const std::shared_ptr<std::atomic<bool>> closed = closed_;
  Spin spin(*this, timeout_ms, mode);
  std::size_t called = 0;
  for (;;) {
    engine_.advance(this, reattach, Look::lanes);
    called += call_back();
    if (*closed) return called;
    called += take_news();
    std::size_t ready = called;
    {
      const std::lock_guard lock(engine_.mutex());
      ready += without_callback_.size();
      if (ready >= count || pending() == without_callback_.size()) {
        spin.learn(true);
        return ready;
      }
    }
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    if (now_ns >= spin.until_ns()) return ready;
    if (!spin.goes_on(now_ns)) sleep(count - called, spin.until_ns(), reattach);
  }
}

bool CompletionQueue::has_enough(std::size_t wanted) const noexcept {
  return first_untold_ != nullptr || !with_callback_.empty() ||
         without_callback_.size() >= wanted || pending() == without_callback_.size();
}

bool CompletionQueue::has_completed(std::uint64_t ticket, bool reattach) {
  engine_.advance(nullptr, reattach, Look::lanes);  // whoever drains is signalled
  const std::lock_guard lock(engine_.mutex());
  const auto is_it = [ticket](const auto& batch) { return batch->completed.ticket == ticket; };
  const AsyncBatch* over = over_;
  while (over != nullptr && !is_it(over)) over = over->next_pending;
  if (over != nullptr) return true;
  return std::any_of(with_callback_.begin(), with_callback_.end(), is_it) ||
         std::any_of(without_callback_.begin(), without_callback_.end(), is_it);
}

int CompletionQueue::fd() {
  {
    const std::lock_guard lock(engine_.mutex());
    if (!epoll_ && !make_fds()) return -1;
    if (!std::exchange(is_given_out_, true)) engine_.want_bell();
  }
  engine_.advance(this, false);  // announces what is in flight already
  const std::lock_guard lock(engine_.mutex());
  settle();
  return epoll_.get();
}

bool CompletionQueue::make_fds() {
  ipc::UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  ipc::UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ipc::UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll || !event || !timer) return false;
  add_to(epoll.get(), event.get(), EPOLLIN);
  add_to(epoll.get(), timer.get(), EPOLLIN);
  epoll_ = std::move(epoll);
  event_ = std::move(event);
  timer_ = std::move(timer);
  signalled_ = false;
  timer_ns_ = 0;
  watched_generation_ = 0;
  watched_.reset();
  return true;
}

void CompletionQueue::add_pending(AsyncBatch& batch) noexcept {
  want_watch();
  AsyncBatch*& first = unfinished_[batch.completed.ticket % kBuckets];
  batch.next_pending = std::exchange(first, &batch);
}

void CompletionQueue::remove_pending(const AsyncBatch& batch) noexcept {
  AsyncBatch** place = &unfinished_[batch.completed.ticket % kBuckets];
  while (*place != &batch) place = &(*place)->next_pending;
  *place = batch.next_pending;
}

AsyncBatch* CompletionQueue::find_pending(std::uint64_t ticket) const noexcept {
  AsyncBatch* batch = unfinished_[ticket % kBuckets];
  while (batch != nullptr && batch->completed.ticket != ticket) batch = batch->next_pending;
  return batch;
}

void CompletionQueue::hand_over(std::unique_ptr<AsyncBatch> batch) {
  remove_pending(*batch);
  list_done(std::move(batch));
}

void CompletionQueue::list_done(std::unique_ptr<AsyncBatch> batch) {
  if (batch->ends != nullptr && (batch->is_telling || batch->ends->has_untold())) {
    batch->next_pending = std::exchange(over_, batch.get());
    (void)batch.release();
    return;
  }
  (batch->callback ? with_callback_ : without_callback_).push_back(std::move(batch));
}

void CompletionQueue::signal() noexcept {
  if (!event_ || signalled_) return;
  signalled_ = ::eventfd_write(event_.get(), 1) == 0;
}

void CompletionQueue::settle() noexcept {
  engine_.wake_sleepers(*this);
  if (anything_done() || (pending() != 0 && engine_.has_more())) return signal();
  if (!signalled_) return;
  eventfd_t ignored = 0;
  (void)::eventfd_read(event_.get(), &ignored);
  signalled_ = false;
}

void CompletionQueue::after_turn(const std::shared_ptr<Session>& session,
                                 std::uint64_t next_look_ns, bool has_more) noexcept {
  if (wants_watch_) watch_session(session, next_look_ns);
  wants_watch_ = false;
  if (has_more && pending() != 0) signal();
}

void CompletionQueue::watch_session(const std::shared_ptr<Session>& session,
                                    std::uint64_t next_look_ns) noexcept {
  if (!epoll_) return;
  const std::uint32_t generation = session != nullptr ? session->generation() : 0;
  if (generation != watched_generation_) {
    // The ends of a session's sockets stay readable. Those of one that nobody keeps are closed.
    if (const std::shared_ptr<Session> old = watched_.lock()) {
      remove_session(epoll_, *old);
    }
    if (session != nullptr) {
      add_session(epoll_, *session);
    }
    watched_ = session;
    watched_generation_ = generation;
  }
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  const bool passed = timer_ns_ != 0 && timer_ns_ <= now_ns;
  if (!passed && (timer_ns_ == 0 || next_look_ns >= timer_ns_) &&
      (timer_ns_ != 0 || next_look_ns == ipc::kNoDeadlineNs)) {
    return;  // armed early enough, or nothing to be armed for
  }
  // An absolute time of 0 disarms it, which also makes it unreadable.
  const bool never = next_look_ns == ipc::kNoDeadlineNs;
  itimerspec when{};
  constexpr std::uint64_t kNsPerS = 1'000'000'000;
  when.it_value.tv_sec = static_cast<time_t>(never ? 0 : next_look_ns / kNsPerS);
  when.it_value.tv_nsec = static_cast<long>(never ? 0 : next_look_ns % kNsPerS);
  (void)::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  timer_ns_ = never ? 0 : next_look_ns;
}

void CompletionQueue::after_fork_child() noexcept {
  // The epoll instance is one with the parent's: only our descriptors of it are closed.
  epoll_.reset();
  event_.reset();
  timer_.reset();
  new (&with_callback_) std::deque<std::unique_ptr<AsyncBatch>>;
  new (&without_callback_) std::deque<std::unique_ptr<AsyncBatch>>;
  first_untold_ = last_untold_ = over_ = nullptr;
  untold_count_ = 0;
  pending_.store(0, std::memory_order_relaxed);
  unfinished_.fill(nullptr);
  signalled_ = false;
  watched_generation_ = 0;
  watched_.reset();
  timer_ns_ = 0;
}

}  // namespace simm::detail
