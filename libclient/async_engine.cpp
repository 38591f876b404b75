#include "libclient/async_engine.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "ipc/futex.h"
#include "libclient/completion_queue.h"
#include "simm/error_code.h"

namespace simm::detail {
namespace {

// Looking for a hang-up is a system call: not at each step of a busy poller.
constexpr std::uint64_t kHangUpLookNs = 200'000;
// How often batches that wait for room are looked through for passed deadlines.
constexpr std::uint64_t kWaitingLookNs = 10'000'000;
// How often the answer for staging memory is looked for.
constexpr std::uint64_t kStagingLookNs = 1'000'000;
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
    engine_.tell_queues();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

private:
  AsyncEngine& engine_;
  std::unique_lock<ForkMutex>& lock_;
};

void AsyncEngine::add_queue(CompletionQueue* queue) {
  const std::lock_guard lock(mutex_);
  queues_.push_back(queue);
}

void AsyncEngine::remove_queue(CompletionQueue* queue) noexcept {
  const std::lock_guard lock(mutex_);
  queues_.erase(std::remove(queues_.begin(), queues_.end(), queue), queues_.end());
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
  batch->queue->want_watch();
  batch->queue->add_pending(*batch);
  (void)batch.release();  // arrived_, waiting_, then the lane's in-flight table know it
  work(lock, nullptr, reattach, Look::lanes);
}

void AsyncEngine::advance(CompletionQueue* caller, bool reattach, Look look) {
  std::unique_lock lock(mutex_);
  if (look == Look::lanes && (is_working_ || !has_news())) return;
  if (caller != nullptr) caller->want_watch();
  work(lock, caller, reattach, look);
}

bool AsyncEngine::has_news() const noexcept {
  if (!arrived_.empty() || !waiting_.empty() || cancelled_ != nullptr) return true;
  bool is_used = false;
  for (std::uint32_t i = 0; i < pool_.async_count(); ++i) {
    const Lane& lane = pool_.async_lane(i);
    if (lane.idle()) continue;
    if (lane.ring->has_completion()) return true;
    is_used = true;
  }
  // A daemon that has gone, or does not answer in time, gives no sign of it on a lane.
  return is_used && ipc::monotonic_now_ns() - last_look_ns_ >= kHangUpLookNs;
}

bool AsyncEngine::cancel(CompletionQueue& queue, std::uint64_t ticket, bool reattach) {
  std::unique_lock lock(mutex_);
  AsyncBatch* const batch = queue.find_pending(ticket);
  if (batch == nullptr) return false;
  if (!std::exchange(batch->cancel_asked, true)) {
    batch->next_cancelled = std::exchange(cancelled_, batch);
  }
  queue.want_watch();
  work(lock, nullptr, reattach, Look::lanes);
  return true;
}

void AsyncEngine::work(std::unique_lock<ForkMutex>& lock, CompletionQueue* caller, bool reattach,
                       Look look) {
  reattach_wanted_ = reattach_wanted_ || reattach;
  bell_look_wanted_ = bell_look_wanted_ || look == Look::bell;
  has_visitor_ = true;
  if (is_working_) return;
  const Turn turn(*this, lock);
  for (std::uint32_t round = 0; has_visitor_ && copy_left_ != 0 && round < kRoundsMax; ++round) {
    has_visitor_ = false;
    take_arrived();
    end_cancelled();
    const bool may_attach = std::exchange(reattach_wanted_, false);
    const bool looks_at_bell = std::exchange(bell_look_wanted_, false);
    lock.unlock();
    if (looks_at_bell) look_at_session();
    step(may_attach);
    lock.lock();
    end_cancelled();  // of what came meanwhile, before any of it is delivered
    deliver(caller);
  }
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
    for (std::uint32_t i = 0; i < pool_.async_count() && batch.submissions_open != 0; ++i) {
      driver_.abandon_answers(pool_.async_lane(i), batch);
    }
    batch.report_if_finished();
  }
}

void AsyncEngine::tell_queues() noexcept {
  const std::shared_ptr<Session> session = link_.session();
  const std::uint64_t next_ns = next_look_ns();
  for (CompletionQueue* queue : queues_) queue->after_step(session, next_ns, has_more_);
}

// Before the lanes are looked at and announce their sleep: a message that comes later stays. A
// session that has ended is given up here also when nothing is in flight: otherwise its
// sockets would keep the descriptors readable for ever.
void AsyncEngine::look_at_session() noexcept {
  if (!bell_wanted()) return;
  const std::shared_ptr<Session> session = link_.session();
  if (session == nullptr) return;
  const bool rings = session->bell().drain();
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  if (rings && now_ns - last_look_ns_ < kHangUpLookNs) return;
  last_look_ns_ = now_ns;
  if (session->hung_up() || !rings) link_.lost(session->generation());
}

void AsyncEngine::step(bool reattach) {
  do {
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    const std::uint32_t first = next_watched_++;
    for (std::uint32_t i = 0; i < pool_.async_count(); ++i) {
      Lane& lane = pool_.async_lane((first + i) % pool_.async_count());
      if (!lane.idle()) {
        watch(lane, now_ns);
      } else if (lane.session != nullptr && lane.generation() != link_.generation()) {
        lane.unbind();  // the session ends with the last lane that keeps it
      }
    }
    take_up_again();
    submit_waiting(reattach, now_ns);
  } while (copy_left_ != 0 && bell_wanted() && !announce());
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

// Takes completions of a lane and notices a daemon that has gone or does not answer.
void AsyncEngine::watch(Lane& lane, std::uint64_t now_ns) noexcept {
  const std::uint64_t copied_before = lane.counters.copied_bytes();
  const bool is_whole = driver_.collect(lane, copy_left_);
  spend(lane.counters.copied_bytes() - copied_before);
  if (!is_whole) {
    lane.session->shut_down();
    return end_lane(lane, Status::io_error);
  }
  if (lane.idle()) return;
  if (copy_left_ == 0 && lane.ring->has_completion()) return;  // the next worker takes it
  const bool doubtful =
      lane.generation() != link_.generation() || lane.session->words().usable() != Status::ok;
  if (doubtful || now_ns - last_look_ns_ >= kHangUpLookNs) {
    last_look_ns_ = now_ns;
    // Descriptors that the process has closed, and whose numbers are other files, never hang up.
    const bool has_ended = lane.session->hung_up() || lane.session->closed_by_daemon();
    if (has_ended) return end_hung_up(lane, now_ns);
  }
  if (now_ns < driver_.overdue_ns(lane, now_ns)) return;
  lane.session->shut_down();
  end_lane(lane, Status::timeout);
}

void AsyncEngine::end_hung_up(Lane& lane, std::uint64_t now_ns) noexcept {
  // What was completed before the end still counts.
  (void)driver_.collect(lane);
  const bool poisoned = lane.session->words().state() == ipc::SessionState::poisoned;
  link_.lost(lane.generation());
  if (!lane.session->fenced()) {
    const bool is_late = now_ns - lane.session->hung_up_ns() >= Session::kFenceWaitNs;
    if (!is_late || !driver_.take_back_all(lane)) return;  // looks again soon
  }
  driver_.give_up(lane, poisoned ? Status::poisoned : Status::unreachable);
}

// The daemon is alive and of no use. What can not be made safe stays in flight until it hangs
// up.
void AsyncEngine::end_lane(Lane& lane, Status reason) noexcept {
  link_.lost(lane.generation());
  if (driver_.take_back_all(lane)) driver_.give_up(lane, reason);
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
  for (std::uint32_t tried = 0; tried < pool_.async_count() && session != nullptr; ++tried) {
    Lane& lane = pool_.async_lane(next_lane_++ % pool_.async_count());
    if (lane.generation() != session->generation()) {
      if (!lane.idle()) continue;  // still waits for the end of an old session
      lane.bind(session);
    }
    bool pushed = false;
    while (copy_left_ != 0) {
      const std::uint64_t copied_before = lane.counters.copied_bytes();
      const LaneDriver::Push push = driver_.push_next(lane, batch);
      spend(lane.counters.copied_bytes() - copied_before);
      if (push != LaneDriver::Push::pushed) break;
      pushed = true;
    }
    // A daemon that has gone is noticed by its hang-up.
    if (pushed) (void)session->ring();
    if (batch.all_submitted()) return true;
  }
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

void AsyncEngine::deliver(CompletionQueue* caller) {
  while (news_ != nullptr) {
    AsyncBatch& batch = news_->batch();
    news_ = news_->publish();
    batch.queue->pages_ended(batch);
    if (batch.queue != caller) batch.queue->signal();
  }
  while (finished_.first != nullptr) {
    std::unique_ptr<AsyncBatch> batch(static_cast<AsyncBatch*>(finished_.first));
    finished_.first = batch->next_finished;
    batch->completed.status = batch->outcome;
    if (batch->outcome != Status::ok && batch->text.wanted()) {
      batch->text.set(status_text(batch->outcome).data());  // a literal, which ends in 0
    }
    CompletionQueue* const queue = batch->queue;
    queue->remove_pending(*batch);
    queue->hand_over(std::move(batch));
    if (queue != caller) queue->signal();
  }
}

bool AsyncEngine::announce() noexcept {
  bool quiet = true;
  for (std::uint32_t i = 0; i < pool_.async_count(); ++i) {
    Lane& lane = pool_.async_lane(i);
    if (lane.idle() || lane.ring->broken()) continue;
    quiet = lane.ring->announce_sleep(ipc::ClientWait::bell) && quiet;
  }
  return quiet;
}

std::uint64_t AsyncEngine::next_look_ns() noexcept {
  std::uint64_t next_ns = ipc::kNoDeadlineNs;
  for (std::uint32_t i = 0; i < pool_.async_count(); ++i) {
    Lane& lane = pool_.async_lane(i);
    // A session that was given up: nobody's descriptor may tell of its end. The times of what is in
    // flight there may have passed, and would make the timer readable for as long as it lasts.
    const bool leaving = !lane.idle() && lane.generation() != link_.generation();
    if (leaving) next_ns = std::min(next_ns, ipc::monotonic_now_ns() + kWaitingLookNs);
    for (std::uint32_t sequence = lane.head; !leaving && sequence != lane.tail; ++sequence) {
      const InFlight& entry = lane.entry(sequence);
      if (entry.run != nullptr) next_ns = std::min(next_ns, entry.give_up_ns);
    }
    // The answer for staging memory rings no bell.
    if (lane.staging_request && !waiting_.empty()) {
      next_ns = std::min(next_ns, ipc::monotonic_now_ns() + kStagingLookNs);
    }
  }
  if (!waiting_.empty()) next_ns = std::min(next_ns, ipc::monotonic_now_ns() + kWaitingLookNs);
  return next_ns;
}

void AsyncEngine::after_fork_child() noexcept {
  // The batches are the parent's. Their memory is a copy that nobody needs.
  new (&waiting_) std::deque<AsyncBatch*>;
  new (&arrived_) std::deque<AsyncBatch*>;
  is_working_ = has_visitor_ = has_more_ = false;  // a thread of the parent may have been at it
  finished_ = FinishedRuns{};
  news_ = nullptr;
  cancelled_ = nullptr;
  for (CompletionQueue* queue : queues_) queue->after_fork_child();
}

}  // namespace simm::detail
