#include "libclient/completion_queue.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <climits>
#include <mutex>
#include <new>
#include <utility>

#include "ipc/futex.h"
#include "libclient/units.h"

namespace simm::detail {
namespace {

constexpr std::uint64_t kNapNs = 5'000'000;  // where no descriptor can be made

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
  engine_.add_queue(this);
}

CompletionQueue::~CompletionQueue() {
  while (pending() != 0) {
    engine_.advance(this, false);
    {
      const std::lock_guard lock(engine_.mutex());
      pending_.fetch_sub(drop_done(), std::memory_order_acq_rel);
      settle();
    }
    if (pending() != 0) sleep_until_something(ipc::monotonic_now_ns() + kNapNs, false);
  }
  engine_.remove_queue(this);
  if (is_given_out_) engine_.leave_bell();
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

// Callbacks may start, poll and drain, so they run without the mutex; they may close the Client or
// throw, so each is taken on its own, and nothing of the queue is used after its end.
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
    if (batch_.ends->has_untold()) {
      queue_.list_untold(batch_);
      return;
    }
    AsyncBatch** place = &queue_.over_;
    while (*place != nullptr && *place != &batch_) place = &(*place)->next_pending;
    if (*place == nullptr) return;
    *place = batch_.next_pending;
    queue_.hand_over(std::unique_ptr<AsyncBatch>(&batch_));
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
    batch->callback(batch->completed);
  }
  return called;
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
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    if (now_ns >= spin.until_ns()) return;
    if (!spin.goes_on(now_ns)) sleep_until_something(spin.until_ns(), reattach);
  }
}

// What lies ready already keeps completion_fd() readable, so nobody who wants more sleeps on that.
std::size_t CompletionQueue::wait_at_least(std::size_t count, std::uint32_t timeout_ms,
                                           WaitMode mode, bool reattach) {
  const std::shared_ptr<std::atomic<bool>> closed = closed_;
  Spin spin(*this, timeout_ms, mode);
  Waiter waiter;
  std::size_t called = 0;
  for (;;) {
    engine_.advance(this, reattach, Look::lanes);
    called += call_back();
    if (*closed) return called;
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
    waiter.wanted = count - called;
    if (!spin.goes_on(now_ns)) sleep_until_enough(waiter, spin.until_ns(), reattach);
  }
}

bool CompletionQueue::has_enough(std::size_t wanted) const noexcept {
  return first_untold_ != nullptr || !with_callback_.empty() ||
         without_callback_.size() >= wanted || pending() == without_callback_.size() ||
         engine_.has_more();
}

void CompletionQueue::tell_waiters() noexcept {
  for (Waiter* waiter = waiters_; waiter != nullptr; waiter = waiter->next) {
    if (waiter->is_told || !has_enough(waiter->wanted) || !waiter->event) continue;
    waiter->is_told = ::eventfd_write(waiter->event.get(), 1) == 0;
  }
}

void CompletionQueue::sleep_until_enough(Waiter& waiter, std::uint64_t until_ns,
                                         bool reattach) noexcept {
  if (!waiter.event) waiter.event = ipc::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool can_sleep = waiter.event.valid();
  {
    const std::lock_guard lock(engine_.mutex());
    if (has_enough(waiter.wanted)) return;
    can_sleep = can_sleep && make_sources();
    waiter.next = std::exchange(waiters_, &waiter);
    engine_.want_bell();
  }
  engine_.advance(this, reattach);  // the daemon rings from now on; what is done has told `waiter`
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  if (!can_sleep) until_ns = std::min(until_ns, now_ns + kNapNs);
  const std::uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / kNsPerMs + 1 : 0;
  pollfd entries[] = {{sources_.get(), POLLIN, 0}, {waiter.event.get(), POLLIN, 0}};
  (void)::poll(entries, can_sleep ? 2 : 0,
               static_cast<int>(std::min<std::uint64_t>(left_ms, INT_MAX)));
  const std::lock_guard lock(engine_.mutex());
  engine_.leave_bell();
  Waiter** place = &waiters_;
  while (*place != &waiter) place = &(*place)->next;
  *place = waiter.next;
  if (!std::exchange(waiter.is_told, false)) return;
  eventfd_t ignored = 0;
  (void)::eventfd_read(waiter.event.get(), &ignored);
}

bool CompletionQueue::make_sources() noexcept {
  if (sources_) return true;
  if (!epoll_ && !make_fds()) return false;
  sources_ = ipc::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!sources_) return false;
  add_to(sources_.get(), timer_.get(), EPOLLIN);
  if (const std::shared_ptr<Session> session = watched_.lock()) add_session(sources_, *session);
  return true;
}

void CompletionQueue::sleep_until_something(std::uint64_t until_ns, bool reattach) noexcept {
  {
    const std::lock_guard lock(engine_.mutex());
    if (pending() == 0 || anything_done()) return;
    if (!epoll_) (void)make_fds();  // without it the sleep is short
    ++sleepers_;
    wants_watch_ = true;
    engine_.want_bell();
    settle();
  }
  engine_.advance(nullptr, reattach);  // the daemon rings from now on; what is done is signalled
  sleep(until_ns);
  const std::lock_guard lock(engine_.mutex());
  engine_.leave_bell();
  --sleepers_;
  settle();
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

void CompletionQueue::sleep(std::uint64_t until_ns) noexcept {
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  if (!epoll_) until_ns = std::min(until_ns, now_ns + kNapNs);
  const std::uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / kNsPerMs + 1 : 0;
  pollfd entry{epoll_.get(), POLLIN, 0};
  (void)::poll(&entry, epoll_ ? 1 : 0, static_cast<int>(std::min<std::uint64_t>(left_ms, INT_MAX)));
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
  if (batch->ends != nullptr && (batch->is_telling || batch->ends->has_untold())) {
    batch->next_pending = std::exchange(over_, batch.get());
    (void)batch.release();
    return;
  }
  (batch->callback ? with_callback_ : without_callback_).push_back(std::move(batch));
}

void CompletionQueue::signal() noexcept {
  if (!event_ || signalled_ || !has_listener()) return;
  signalled_ = ::eventfd_write(event_.get(), 1) == 0;
}

void CompletionQueue::settle() noexcept {
  tell_waiters();
  const bool is_news = anything_done() || (pending() != 0 && engine_.has_more());
  // Nothing will wake those any more who slept while another thread took the last batch.
  const bool is_over = pending() == 0 && sleepers_ != 0;
  if (has_listener() && (is_news || is_over)) return signal();
  if (!signalled_) return;
  eventfd_t ignored = 0;
  (void)::eventfd_read(event_.get(), &ignored);
  signalled_ = false;
}

void CompletionQueue::after_step(const std::shared_ptr<Session>& session,
                                 std::uint64_t next_look_ns, bool has_more) noexcept {
  if (wants_watch_) watch_session(session, next_look_ns);
  wants_watch_ = false;
  if (has_more && pending() != 0) signal();
  tell_waiters();
}

void CompletionQueue::watch_session(const std::shared_ptr<Session>& session,
                                    std::uint64_t next_look_ns) noexcept {
  if (!epoll_) return;
  const std::uint32_t generation = session != nullptr ? session->generation() : 0;
  if (generation != watched_generation_) {
    // The ends of a session's sockets stay readable. Those of one that nobody keeps are closed.
    if (const std::shared_ptr<Session> old = watched_.lock()) {
      remove_session(epoll_, *old);
      remove_session(sources_, *old);
    }
    if (session != nullptr) {
      add_session(epoll_, *session);
      add_session(sources_, *session);
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
  sources_.reset();
  waiters_ = nullptr;
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
  sleepers_ = 0;
}

}  // namespace simm::detail
