#include "libclient/async_engine.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "ipc/futex.h"
#include "simm/error_code.h"

namespace simm::detail {
namespace {

// Looking for a hang-up is a system call: not at each step of a busy poller.
constexpr std::uint64_t kHangUpLookNs = 200'000;
// How often batches that wait for room are looked through for passed deadlines.
constexpr std::uint64_t kWaitingLookNs = 10'000'000;
// How often the answer for staging memory is looked for.
constexpr std::uint64_t kStagingLookNs = 1'000'000;
// How long a thread watches before it looks whether the daemon has hung up: nobody wakes a sleeper
// whose daemon has died.
constexpr std::uint64_t kWatchNs = 10'000'000;
// How often one worker goes round because of others who came meanwhile.
constexpr std::uint32_t kRoundsMax = 16;

}  // namespace

class AsyncEngine::Turn {
public:
  Turn(AsyncEngine& engine, std::unique_lock<ForkMutex>& lock) : engine_(engine), lock_(lock) {
    engine_.is_working_ = true;
    engine_.copy_left_ = kCopyBytesMax;
  }
  ~Turn() {
    if (!lock_.owns_lock()) lock_.lock();
    engine_.is_working_ = false;
    engine_.has_more_ = engine_.has_visitor_ || engine_.copy_left_ == 0;
    engine_.after_turn();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

private:
  AsyncEngine& engine_;
  std::unique_lock<ForkMutex>& lock_;
};

void AsyncEngine::add_owner(BatchOwner* owner) {
  const std::lock_guard lock(mutex_);
  owners_.push_back(owner);
}

void AsyncEngine::remove_owner(BatchOwner* owner) noexcept {
  const std::lock_guard lock(mutex_);
  owners_.erase(std::remove(owners_.begin(), owners_.end(), owner), owners_.end());
}

std::size_t AsyncEngine::owners() noexcept {
  const std::lock_guard lock(mutex_);
  return owners_.size();
}

void AsyncEngine::start(std::unique_ptr<AsyncBatch> batch, bool reattach) {
  driver_.presence().make(*batch);
  // From here on whoever works on a batch writes into its text.
  const ErrorScope nobody;
  std::unique_lock lock(mutex_);
  batch->finished_to = &finished_;
  if (batch->ends != nullptr) {
    batch->ends->set_news(&news_);
    batch->pages.set_ends(batch->ends.get());
  }
  arrived_.push_back(batch.get());
  batch->owner->add_pending(*batch);
  (void)batch.release();  // arrived_, waiting_, then the lane's in-flight table know it
  work(lock, nullptr, reattach, Look::lanes);
}

void AsyncEngine::advance(BatchOwner* caller, bool reattach, Look look) {
  std::unique_lock lock(mutex_);
  if (look == Look::lanes && is_working_) return;
  if ((look == Look::lanes || !bell_wanted()) && !is_working_ && !has_news()) return;
  work(lock, caller, reattach, look);
}

bool AsyncEngine::has_news() const noexcept {
  if (!arrived_.empty() || !waiting_.empty() || cancelled_ != nullptr) return true;
  if (lane_.idle()) {
    // The session ends with the last lane that keeps it.
    return lane_.session != nullptr && lane_.generation() != link_.generation();
  }
  if (lane_.ring->has_completion()) return true;
  // A daemon that has gone, or does not answer in time, gives no sign of it on the lane.
  return ipc::monotonic_now_ns() - last_look_ns_ >= kHangUpLookNs;
}

bool AsyncEngine::cancel(BatchOwner& owner, std::uint64_t ticket, bool reattach) {
  std::unique_lock lock(mutex_);
  AsyncBatch* const batch = owner.find_pending(ticket);
  if (batch == nullptr) return false;
  if (!std::exchange(batch->cancel_asked, true)) {
    batch->next_cancelled = std::exchange(cancelled_, batch);
  }
  owner.want_watch();
  work(lock, nullptr, reattach, Look::lanes);
  return true;
}

void AsyncEngine::work(std::unique_lock<ForkMutex>& lock, BatchOwner* caller, bool reattach,
                       Look look) {
  reattach_wanted_ = reattach_wanted_ || reattach;
  bell_look_wanted_ = bell_look_wanted_ || look == Look::bell;
  has_visitor_ = true;
  if (caller != nullptr) caller->want_watch();
  if (is_working_) return;
  const Turn turn(*this, lock);
  for (std::uint32_t round = 0; has_visitor_ && copy_left_ != 0 && round < kRoundsMax; ++round) {
    has_visitor_ = false;
    take_arrived();
    end_cancelled();
    const bool may_attach = std::exchange(reattach_wanted_, false);
    const bool looks_at_bell = std::exchange(bell_look_wanted_, false) && bell_wanted();
    const bool announces = bell_wanted() && watcher_ == nullptr;
    lock.unlock();
    if (looks_at_bell) look_at_session();
    step(may_attach, announces);
    lock.lock();
    end_cancelled();  // of what came meanwhile, before any of it is delivered
    deliver(caller);
  }
}

// The watcher stays in here, so that there is one as long as anybody sleeps.
void AsyncEngine::sleep(AsyncSleeper& me, std::uint64_t until_ns, bool reattach) {
  std::unique_lock lock(mutex_);
  BatchOwner& owner = *me.owner;
  AsyncSleeper** last = &sleepers_;
  while (*last != nullptr) last = &(*last)->next;
  *last = &me;
  while (!me.has_enough() && ipc::monotonic_now_ns() < until_ns) {
    if (!is_working_ && watcher_ == nullptr) watcher_ = &me;
    if (is_working_ || !has_more_) {
      watch(lock, me, until_ns);
      if (watcher_ != &me) continue;
    }
    work(lock, &owner, reattach, Look::lanes);
    if (!me.has_enough()) wake_sleepers(owner);  // of whom some want less
  }
  AsyncSleeper** place = &sleepers_;
  while (*place != &me) place = &(*place)->next;
  *place = me.next;
  if (watcher_ == &me) watcher_ = nullptr;
  if (watcher_ == nullptr) hand_watch_over(lock, owner);
}

void AsyncEngine::watch(std::unique_lock<ForkMutex>& lock, AsyncSleeper& me,
                        std::uint64_t until_ns) noexcept {
  std::shared_ptr<Session> on;
  if (watcher_ == &me) until_ns = std::min(until_ns, ipc::monotonic_now_ns() + kWatchNs);
  if (watcher_ == &me && !is_working_) {
    until_ns = std::min(until_ns, next_look_ns());
    if (!lane_.idle() && !lane_.ring->broken()) {
      if (!lane_.ring->announce_sleep(ipc::ClientWait::futex)) return;
      on = lane_.session;
    }
  }
  me.fall_asleep(std::move(on));
  lock.unlock();
  me.sleep(lane_.index(), until_ns);
  lock.lock();
  me.wake_up();
}

// To the oldest sleeper; one that is awake comes by itself. Else to the bell.
void AsyncEngine::hand_watch_over(std::unique_lock<ForkMutex>& lock, BatchOwner& owner) {
  if (sleepers_ != nullptr) return wake(*sleepers_);
  if (bell_wanted()) work(lock, &owner, false, Look::bell);
}

void AsyncEngine::wake_sleepers(const BatchOwner& owner) noexcept {
  for (AsyncSleeper* sleeper = sleepers_; sleeper != nullptr; sleeper = sleeper->next) {
    if (sleeper->owner == &owner && owner.has_enough(sleeper->wanted)) wake(*sleeper);
  }
}

void AsyncEngine::wake_starter(const BatchStarter& starter) noexcept {
  for (AsyncSleeper* sleeper = sleepers_; sleeper != nullptr; sleeper = sleeper->next) {
    if (sleeper->starter == &starter) wake(*sleeper);
  }
}

void AsyncEngine::bell_rang() {
  std::unique_lock lock(mutex_);
  if (bell_wanted()) work(lock, nullptr, false, Look::lanes);
}

void AsyncEngine::take_arrived() {
  waiting_.insert(waiting_.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
}

void AsyncEngine::end_cancelled() {
  if (cancelled_ == nullptr) return;
  take_arrived();
  const auto was_asked = [](const AsyncBatch* batch) { return batch->cancel_asked; };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), was_asked), waiting_.end());
  while (cancelled_ != nullptr) {
    AsyncBatch& batch = *std::exchange(cancelled_, cancelled_->next_cancelled);
    if (batch.finished()) continue;
    batch.is_cancelled = true;
    batch.stop(Status::cancelled);
    if (batch.submissions_open != 0) driver_.abandon_answers(lane_, batch);
    batch.report_if_finished();
  }
}

void AsyncEngine::after_turn() noexcept {
  if (bell_wanted()) {
    const std::shared_ptr<Session> session = link_.session();
    const std::uint64_t next_ns = next_look_ns();
    for (BatchOwner* owner : owners_) owner->after_turn(session, next_ns, has_more_);
  }
  if (sleepers_ == nullptr) return;
  if (watcher_ == nullptr) return wake(*sleepers_);
  // It could not use the lane while somebody worked, or there was nothing on the lane.
  if (watcher_->is_aside()) wake(*watcher_);
}

// Before the lane is looked at and announces its sleep: a message that comes later stays. A session
// that has ended is given up here also when nothing is in flight: otherwise its sockets would keep
// the descriptors readable for ever.
void AsyncEngine::look_at_session() {
  const std::shared_ptr<Session> session = link_.session();
  if (session == nullptr) return;
  const bool rings = session->bell().drain();
  // Whoever waits for the bell of another lane does not see what was read here.
  for (AsyncEngine* other = next_; other != this; other = other->next_) other->bell_rang();
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  if (rings && now_ns - last_look_ns_ < kHangUpLookNs) return;
  last_look_ns_ = now_ns;
  if (session->hung_up() || !rings) link_.lost(session->generation());
}

void AsyncEngine::step(bool reattach, bool announces) {
  do {
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    if (!lane_.idle()) {
      watch_lane(now_ns);
    } else if (lane_.session != nullptr && lane_.generation() != link_.generation()) {
      lane_.unbind();
    }
    take_up_again();
    submit_waiting(reattach, now_ns);
  } while (copy_left_ != 0 && announces && !announce());
}

void AsyncEngine::take_up_again() {
  BatchRun** place = &finished_.first;
  while (*place != nullptr) {
    BatchRun* const run = *place;
    if (run->finished()) {
      place = &run->next_finished;
      continue;
    }
    *place = run->next_finished;
    run->finished_to = &finished_;
    waiting_.push_back(static_cast<AsyncBatch*>(run));
  }
}

// Takes completions and notices a daemon that has gone or does not answer.
void AsyncEngine::watch_lane(std::uint64_t now_ns) noexcept {
  const std::uint64_t copied_before = lane_.counters.copied_bytes();
  const bool is_whole = driver_.collect(lane_, copy_left_);
  spend(lane_.counters.copied_bytes() - copied_before);
  if (!is_whole) {
    lane_.session->shut_down();
    return end_lane(Status::io_error);
  }
  if (lane_.idle()) return;
  if (copy_left_ == 0 && lane_.ring->has_completion()) return;  // the next worker takes it
  const bool doubtful =
      lane_.generation() != link_.generation() || lane_.session->words().usable() != Status::ok;
  if (doubtful || now_ns - last_look_ns_ >= kHangUpLookNs) {
    last_look_ns_ = now_ns;
    // Descriptors that the process has closed, and whose numbers are other files, never hang up.
    const bool has_ended = lane_.session->hung_up() || lane_.session->closed_by_daemon();
    if (has_ended) return end_hung_up(now_ns);
  }
  if (now_ns < driver_.overdue_ns(lane_, now_ns)) return;
  if (!LaneDriver::is_silent(lane_, now_ns)) return driver_.end_overdue(lane_, now_ns);
  lane_.session->shut_down();
  end_lane(Status::timeout);
}

void AsyncEngine::end_hung_up(std::uint64_t now_ns) noexcept {
  // What was completed before the end still counts.
  (void)driver_.collect(lane_);
  const bool poisoned = lane_.session->words().state() == ipc::SessionState::poisoned;
  link_.lost(lane_.generation());
  if (!lane_.session->fenced()) {
    const bool is_late = now_ns - lane_.session->hung_up_ns() >= Session::kFenceWaitNs;
    if (!is_late || !driver_.take_back_all(lane_)) return;  // looks again soon
  }
  driver_.give_up(lane_, poisoned ? Status::poisoned : Status::unreachable);
}

// The daemon is alive and of no use. What can not be made safe stays in flight until it hangs
// up.
void AsyncEngine::end_lane(Status reason) noexcept {
  link_.lost(lane_.generation());
  if (driver_.take_back_all(lane_)) driver_.give_up(lane_, reason);
}

void AsyncEngine::submit_waiting(bool reattach, std::uint64_t now_ns) {
  if (waiting_.empty()) return;
  const std::uint64_t deadline_ns = waiting_.front()->deadline_ns;
  if (!link_.ready(reattach, std::min(deadline_ns, now_ns + Link::kGrantedWaitNs))) {
    for (AsyncBatch* batch : waiting_) {
      batch->stop(Status::unreachable);
      batch->report_if_finished();
    }
    waiting_.clear();
    return;
  }
  time_out_waiting(now_ns);
  while (!waiting_.empty()) {
    AsyncBatch& batch = *waiting_.front();
    if (!push(batch)) return;
    waiting_.pop_front();
    batch.report_if_finished();  // when none of its pages was worth a submission
  }
}

// Submits as much of the batch as has room. True when all of it is.
bool AsyncEngine::push(AsyncBatch& batch) {
  const std::shared_ptr<Session> session = link_.session();
  const ErrorScope scope(batch.text);
  if (session == nullptr) return batch.all_submitted();
  if (lane_.generation() != session->generation()) {
    if (lane_.has_calls()) return batch.all_submitted();  // of an old session that has not ended
    lane_.bind(session);
  }
  bool pushed = false;
  while (copy_left_ != 0) {
    const std::uint64_t copied_before = lane_.counters.copied_bytes();
    const LaneDriver::Push push = driver_.push_next(lane_, batch);
    spend(lane_.counters.copied_bytes() - copied_before);
    if (push != LaneDriver::Push::pushed) break;
    pushed = true;
  }
  // A daemon that has gone is noticed by its hang-up.
  if (pushed) (void)session->ring();
  return batch.all_submitted();
}

void AsyncEngine::time_out_waiting(std::uint64_t now_ns) {
  const auto expired = [now_ns](AsyncBatch* batch) {
    if (now_ns < batch->deadline_ns) return false;
    batch->stop(Status::timeout);
    batch->report_if_finished();
    return true;
  };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), expired), waiting_.end());
}

void AsyncEngine::deliver(BatchOwner* caller) {
  while (news_ != nullptr) {
    AsyncBatch& batch = news_->batch();
    news_ = news_->publish();
    batch.owner->pages_ended(batch);
    if (batch.owner != caller) tell(*batch.owner);
  }
  while (finished_.first != nullptr) {
    std::unique_ptr<AsyncBatch> batch(static_cast<AsyncBatch*>(finished_.first));
    finished_.first = batch->next_finished;
    batch->completed.status = batch->outcome;
    if (batch->outcome != Status::ok && batch->text.wanted()) {
      batch->text.set(status_text(batch->outcome).data());  // a literal, which ends in 0
    }
    BatchOwner* const owner = batch->owner;
    owner->hand_over(std::move(batch));
    if (owner != caller) tell(*owner);
  }
}

void AsyncEngine::tell(BatchOwner& owner) noexcept {
  owner.signal();
  wake_sleepers(owner);
}

bool AsyncEngine::announce() noexcept {
  if (lane_.idle() || lane_.ring->broken()) return true;
  return lane_.ring->announce_sleep(ipc::ClientWait::bell);
}

std::uint64_t AsyncEngine::next_look_ns() noexcept {
  std::uint64_t next_ns = ipc::kNoDeadlineNs;
  // A session that was given up: nobody's descriptor may tell of its end. The times of what is in
  // flight there may have passed, and would make the timer readable for as long as it lasts.
  const bool leaving = !lane_.idle() && lane_.generation() != link_.generation();
  if (leaving) next_ns = std::min(next_ns, ipc::monotonic_now_ns() + kWaitingLookNs);
  for (std::uint32_t sequence = lane_.head; !leaving && sequence != lane_.tail; ++sequence) {
    const InFlight& entry = lane_.entry(sequence);
    if (entry.run != nullptr) next_ns = std::min(next_ns, entry.give_up_ns);
  }
  if (waiting_.empty()) return next_ns;
  // The answer for staging memory rings no bell.
  const std::uint64_t pause_ns = lane_.staging_request ? kStagingLookNs : kWaitingLookNs;
  return std::min(next_ns, ipc::monotonic_now_ns() + pause_ns);
}

void AsyncEngine::after_fork_child() noexcept {
  // The batches are the parent's. Their memory is a copy that nobody needs.
  new (&waiting_) std::deque<AsyncBatch*>;
  new (&arrived_) std::deque<AsyncBatch*>;
  is_working_ = has_visitor_ = has_more_ = false;  // a thread of the parent may have been at it
  sleepers_ = watcher_ = nullptr;
  finished_ = FinishedRuns{};
  news_ = nullptr;
  cancelled_ = nullptr;
  for (BatchOwner* owner : owners_) owner->after_fork_child();
}

}  // namespace simm::detail
