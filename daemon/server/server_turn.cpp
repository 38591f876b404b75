// What a server does in a turn of its agent.
#include <algorithm>

#include "daemon/server/server.h"
#include "simm/check.h"

namespace simm::server {

namespace {

// How often a put that waits for room asks again, when nothing else wakes the agent.
constexpr base::TimeNs kSpaceRetryNs = base::kNsPerMs;
// Counters, tenants and hot keys are as old as that at most. To publish before each sleep would
// cost a sixth of a small get.
constexpr base::TimeNs kPublishNs = 100 * base::kNsPerMs;

}  // namespace

int Server::do_work() noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  turn_ns_ = now_ns;
  if (!is_open() && !open_if_recovered()) return 0;
  int work = store_.do_work(now_ns);
  if (!waiting_.empty()) work += retry_waiting();
  work += expected_.do_work(now_ns);
  if (!arriving_.empty()) retry_arriving(now_ns);
  queue_.begin_turn(now_ns);
  if (!queue_.empty()) work += start_moves(now_ns);
  work += scrubber_.do_work(now_ns, jobs_busy_ > 0);
  has_changed_ = has_changed_ || work > 0;
  if (now_ns >= publish_ns_) publish();
  return work;
}

base::TimeNs Server::next_deadline_ns() const noexcept {
  if (!is_open()) return base::kNoDeadline;
  const bool waits = waiting_count_ > 0 || !arriving_.empty();
  const base::TimeNs retry_ns = waits ? turn_ns_ + kSpaceRetryNs : base::kNoDeadline;
  const base::TimeNs publish_ns = has_changed_ ? publish_ns_ : base::kNoDeadline;
  return std::min({retry_ns, publish_ns, queue_.next_deadline_ns(), scrubber_.next_deadline_ns(),
                   expected_.next_deadline_ns()});
}

void Server::publish() noexcept {
  publish_ns_ = turn_ns_ + kPublishNs;
  has_changed_ = false;
  arrivals_.look_at_time(turn_ns_);
  counters_.arriving_slots.set(arrivals_.open_slots());
  store_counters_.publish(store_.stats());
  store_.tell_tenants(tenants_.back());
  tenants_.publish();
  hot_keys_.publish(turn_ns_);
}

// Lets some of those that wait for room try again, behind everybody who is at it.
int Server::retry_waiting() noexcept {
  constexpr std::uint32_t kRetriesPerTurn = 4;
  for (std::uint32_t i = 0; i < kRetriesPerTurn && !waiting_.empty(); ++i) {
    Job& job = *waiting_.pop_front();
    --waiting_count_;
    job.waits_for_space = false;
    queue_.push(job);
  }
  return 0;  // asking is no work: the thread may idle between two attempts
}

// All of them, where something has come or will not. Deadlines are looked at as often as those of
// puts that wait for room.
void Server::retry_arriving(base::TimeNs now_ns) noexcept {
  const bool is_late = now_ns >= arriving_looked_ns_ + kSpaceRetryNs;
  if (!expected_.take_news() && !is_late) return;
  arriving_looked_ns_ = now_ns;
  while (Job* const job = arriving_.pop_front()) {
    job->waits_for_arrival = false;
    queue_.push(*job);
  }
}

bool Server::window_open(const Job& job) const noexcept {
  return job.moves == 0 ||
         (job.moves < config_.request_moves_max && job.move_bytes < config_.request_bytes_max);
}

int Server::start_moves(base::TimeNs now_ns) noexcept {
  int work = 0;
  for (std::uint32_t pages = 0; pages < config_.pages_per_turn; ++pages) {
    Job* job = queue_.next();
    if (job == nullptr) {
      // Debts were paid off a little: that is work, the next turn goes on.
      return work + (queue_.empty() ? 0 : 1);
    }
    const std::uint32_t waiting_before = waiting_count_;
    start_page(*job, now_ns);
    if (waiting_count_ == waiting_before) ++work;
  }
  return work;
}

// Puts it on that list, of those that wait for something else than their turn.
void Server::park(Job& job, JobList& list, bool Job::*waits) noexcept {
  queue_.remove(job);
  list.push_back(job);
  job.*waits = true;
}

void Server::start_page(Job& job, base::TimeNs now_ns) noexcept {
  transport::Incoming& incoming = *job.incoming;
  if (now_ns >= job.deadline_ns) {
    stop(job, Status::timeout);
    finish_if_over(job);
    return;
  }
  const auto page = static_cast<std::uint16_t>(job.next);
  const bool is_traced = job.is_traced();
  if (is_traced && page == 0) job.stamp(base::RequestStamp::turn, clock_.fresh_ns());
  const PageServer::Started started = pages_.start(job, page, now_ns);
  queue_.charge(job, started.bytes + config_.page_cost_bytes);
  if (started.what == PageServer::Started::What::no_room) {
    if (now_ns >= job.space_deadline_ns) {
      stop(job, Status::no_space);
      finish_if_over(job);
      return;
    }
    counters_.space_waits.add();
    ++waiting_count_;
    return park(job, waiting_, &Job::waits_for_space);
  }
  if (started.what == PageServer::Started::What::arriving) {
    return park(job, arriving_, &Job::waits_for_arrival);
  }
  ++job.next;
  if (started.what == PageServer::Started::What::moving) {
    ++job.moves;
    job.move_bytes += started.bytes;
    job.pages->work[page].age = queue_.begin_move(job, started.bytes);
  }
  if (is_traced) job.stamp(base::RequestStamp::stored, clock_.fresh_ns());
  if (job.next == incoming.pages.size()) {
    queue_.remove(job);
    finish_if_over(job);
  } else if (!window_open(job)) {
    queue_.remove(job);
  }
}

}  // namespace simm::server
