// The course of a batch that is not over with its first messages: what is done for the other copies
// of its objects, how long it is waited for, and how it is given up. Waited for is a batch whose
// bytes move, until its latest deadline, and one that stands, for patience_ns. What nobody waits
// for any more has little time.
#include <algorithm>
#include <utility>

#include "daemon/engine/engine.h"
#include "simm/check.h"

namespace simm::engine {

using transport::PageReply;
using transport::PageRequest;

namespace {

// The looks are the engine's own timers, so the data path does not pay for them. Short batches are
// over before the first one.
constexpr base::TimeNs kLooksPerPatience = 4;
constexpr base::TimeNs kLookMinNs = base::kNsPerMs;
// A client takes a daemon for dead that says nothing for a second.
constexpr base::TimeNs kOverdueLookNs = 200 * base::kNsPerMs;

}  // namespace

// ---- both copies ----

// The same write once more, of the replicas.
void Engine::write_replicas(Operation& operation) noexcept {
  if (config_.replicas == 0) return;
  Operation* const replica = operations_.allocate();
  SIMM_CHECK(replica != nullptr);  // there is one for each that writes
  ++replicas_lent_;
  replica->is_replica = true;
  replica->other = &operation;
  operation.other = replica;
  replica->header = operation.header;
  replica->header.name_space = base::replica_of(operation.header.name_space);
  replica->header.trace_id = 0;
  replica->header.trace = {};
  replica->owner = operation.owner;
  replica->page_count = operation.page_count;
  std::copy_n(operation.pages.begin(), operation.page_count, replica->pages.begin());
  submit(*replica);
}

// Both copies would be at one daemon: of use to nobody.
bool Engine::is_lone(const PageRequest& page) const noexcept {
  const base::Slot slot = base::slot_of(page.group);
  return placement_->route(slot).peer == placement_->route(base::mirror_of(slot)).peer;
}

// The pages that were just hashed name replicas from now on. Replicas that would be of no use are
// not put. They are removed all the same: they may be from a time when they were of use. False: the
// request is over.
bool Engine::name_replicas(SubRequest& request) noexcept {
  Operation& operation = *progress_of(request).operation;
  const bool skips_lone = operation.is_replica && operation.header.opcode == ipc::Opcode::put;
  for (std::uint32_t at = request.first; at < request.end; ++at) {
    ReplicaRules::turn(operation.pages[at]);
    if (!skips_lone || !is_lone(operation.pages[at])) continue;
    take_reply(operation, operation.pages[at], {Status::not_found, 0});
    std::swap(operation.pages[at], operation.pages[request.first++]);
  }
  if (request.first < request.end) return true;
  close_request(request);
  return false;
}

bool Engine::may_ask_other(const SubRequest& request, Status status) noexcept {
  const Progress& progress = progress_of(request);
  if (!progress.of_both || progress.phase != Phase::running || request.asked_other) return false;
  // A shared read has asked both. What this daemon owns itself is read from its owner as always.
  const bool is_shared = request.to_shared_reads && request.route.peer == kSharedReads;
  if (is_shared || !transport::is_read(progress.operation->header.opcode)) return false;
  return ReplicaRules::asks_other(status);
}

// The pages [first, end), where its open pages begin, wait at the end of the request.
void Engine::ask_other_later(SubRequest& request, std::uint32_t first, std::uint32_t end) noexcept {
  const auto pages = progress_of(request).operation->pages.begin();
  std::rotate(pages + first, pages + end, pages + request.end - request.tail);
  request.tail += end - first;
}

// Those pages become a request of their own. Where there is no entry for that, they go when nothing
// else of the request is left. True: that is so.
bool Engine::send_tail(SubRequest& request) noexcept {
  if (request.first + request.tail == request.end) {
    ask_other(request);
    wait(request);
    return true;
  }
  SubRequest* const others = acquire_more();
  if (others == nullptr) return false;
  open_request(progress_of(request), *others, request.end - request.tail, request.end);
  others->of_replicas = request.of_replicas;
  ask_other(*others);
  wait(*others);
  request.end -= std::exchange(request.tail, 0);
  return false;
}

// All pages of the request ask the owners of their other copies.
void Engine::ask_other(SubRequest& request) noexcept {
  Operation& operation = *progress_of(request).operation;
  request.stage = Stage::unrouted;
  request.tail = 0;
  request.of_replicas = !request.of_replicas;
  request.asked_other = true;
  request.to_shared_reads = false;
  request.waits_for_map = false;
  for (std::uint32_t at = request.first; at < request.end; ++at) {
    ReplicaRules::turn(operation.pages[at]);
  }
  counters_.asked_other.add(request.end - request.first);
}

// Both have ended: the client's own has the answers of both, and the other one goes.
void Engine::join_copies(Progress& progress) noexcept {
  Operation& operation = *progress.operation;
  Operation& replica = *operation.other;
  const Progress& of_replica = progress_of(replica);
  progress.timed_out |= of_replica.timed_out;
  // By two maps: the new owner of one copy may have been given that one meanwhile, by the other.
  const bool is_of_one_map =
      progress.oldest == of_replica.newest && of_replica.oldest == progress.newest;
  for (std::uint32_t i = 0; i < operation.page_count; ++i) {
    PageReply& reply = operation.replies[i];
    const PageReply other = replica.replies[i];
    const bool is_one = (reply.status == Status::ok) != (other.status == Status::ok);
    if (is_one && operation.header.opcode == ipc::Opcode::put) counters_.single_writes.add();
    reply = ReplicaRules::join(operation.header.opcode, reply, other, is_of_one_map);
  }
  --in_flight_;
  release(replica);
}

// ---- patience ----

base::TimeNs Engine::cancel_time(base::TimeNs now_ns, base::TimeNs deadline_ns) const noexcept {
  if (deadline_ns <= now_ns) return deadline_ns;
  const base::TimeNs given_ns = deadline_ns - now_ns;
  const base::TimeNs share_ns = given_ns / 100 * config_.fence_budget_percent;
  const base::TimeNs budget_ns =
      std::clamp(share_ns, config_.fence_budget_min_ns, config_.fence_budget_max_ns);
  return deadline_ns - std::min(budget_ns, given_ns / 2);
}

void Engine::begin_patience(Progress& progress) noexcept {
  const transport::RequestHeader& header = progress.operation->header;
  const base::TimeNs now_ns = progress.submitted_ns;
  progress.answered = 0;
  progress.has_looked = false;
  progress.deadline_ns = header.deadline_ns;
  if (header.patience_ns != 0 && header.deadline_ns > now_ns) {
    progress.deadline_ns = now_ns + std::min(header.patience_ns, header.deadline_ns - now_ns);
  }
  progress.operation->cancel_ns = cancel_time(now_ns, progress.deadline_ns);
}

base::TimeNs Engine::next_look_ns(const Progress& progress, base::TimeNs now_ns) const noexcept {
  const Operation& operation = *progress.operation;
  if (progress.deadline_ns == operation.header.deadline_ns) return operation.cancel_ns;
  const base::TimeNs pause_ns =
      std::max(operation.header.patience_ns / kLooksPerPatience, kLookMinNs);
  return std::min(operation.cancel_ns, now_ns + pause_ns);
}

// A number that changes when something of the batch has moved, or something in front of it on the
// same way. Answers that only ask for another map, or wait for one, are no progress.
std::uint64_t Engine::moved_of(Progress& progress) noexcept {
  std::uint64_t moved = progress.answered;
  for (SubRequest* request = progress.open.front(); request != nullptr;
       request = progress.open.next(*request)) {
    const bool has_route = request->stage == Stage::sorted || request->stage == Stage::posted;
    if (!has_route || request->waits_for_map) continue;
    const transport::Requester* requester = requesters_.find(request->route.peer);
    if (requester != nullptr) moved += requester->moved(request->route);
  }
  return moved;
}

// True: it is not given up yet.
bool Engine::goes_on(Progress& progress) noexcept {
  Operation& operation = *progress.operation;
  const transport::RequestHeader& header = operation.header;
  if (header.patience_ns == 0) return false;
  const base::TimeNs now_ns = clock_.now_ns();
  const std::uint64_t moved = moved_of(progress);
  const bool is_moving = progress.has_looked && moved != progress.moved;
  progress.has_looked = true;
  progress.moved = moved;
  if (is_moving && now_ns < header.deadline_ns && progress.deadline_ns < header.deadline_ns) {
    progress.deadline_ns = now_ns + std::min(header.patience_ns, header.deadline_ns - now_ns);
    operation.cancel_ns = cancel_time(now_ns, progress.deadline_ns);
    counters_.extended.add();
    operation.owner->on_progress(client_operation(progress));
  }
  if (operation.cancel_ns <= now_ns) return false;
  timers_.arm(progress, next_look_ns(progress, now_ns));
  return true;
}

// ---- giving up ----

void Engine::on_timer(Progress& progress) noexcept {
  const base::TimeNs deadline_ns = progress.deadline_ns;
  switch (progress.phase) {
    case Phase::running:
      if (goes_on(progress)) return;
      progress.phase = Phase::cancelling;
      timers_.arm(progress, deadline_ns);
      return cancel_open(progress);
    case Phase::cancelling:
      progress.phase = Phase::abandoning;
      timers_.arm(progress, deadline_ns + config_.fence_grace_ns / 2);
      return abandon_open(progress);
    case Phase::abandoning:
      progress.phase = Phase::resetting;
      timers_.arm(progress, deadline_ns + config_.fence_grace_ns);
      return reset_open(progress);
    case Phase::resetting:
      progress.phase = Phase::overdue;
      counters_.fences_overdue.add();
      [[fallthrough]];
    case Phase::overdue:
      return tell_overdue(progress);
    case Phase::finished:
      return;
  }
}

void Engine::cancel_open(Progress& progress) noexcept {
  Operation& operation = *progress.operation;
  if (operation.requests_open == 0) {  // it waited for an entry all the time
    waiting_.remove(progress);
    for (std::uint32_t at = 0; at < operation.page_count; ++at) {
      take_reply(operation, operation.pages[at], {Status::timeout, 0});
    }
    return finish(progress);
  }
  SubRequest* next = progress.open.front();
  while (next != nullptr) {
    SubRequest& request = *next;
    next = progress.open.next(request);
    cancel_request(request);
  }
}

// What is not posted is over at once; what is posted is asked to end, and sends nothing after it.
void Engine::cancel_request(SubRequest& request) noexcept {
  if (request.stage != Stage::posted) {
    static_cast<base::ListLink<PendingTag>&>(request).unlink();  // from pending_ or paused_
    answer(request, request.first, request.end,
           request.waits_for_map ? Status::wrong_epoch : Status::timeout);
    return close_request(request);
  }
  const std::uint32_t posted_end = request.first + request.count;
  answer(request, posted_end, request.end, Status::timeout);
  request.end = posted_end;
  transport::Requester* requester = requesters_.find(request.route.peer);
  if (requester == nullptr) return;  // its transport is going away and fences it
  counters_.cancels.add();
  requester->cancel(request.route, requests_.token(request));
}

void Engine::abandon_open(Progress& progress) noexcept {
  SubRequest* next = progress.open.front();
  while (next != nullptr) {
    SubRequest& request = *next;
    next = progress.open.next(request);
    transport::Requester* requester = requesters_.find(request.route.peer);
    if (requester != nullptr) requester->abandon(request.route, requests_.token(request));
  }
}

void Engine::reset_open(Progress& progress) noexcept {
  SubRequest* next = progress.open.front();
  while (next != nullptr) {
    SubRequest& request = *next;
    next = progress.open.next(request);
    transport::Requester* requester = requesters_.find(request.route.peer);
    if (requester == nullptr) continue;  // its transport is going away and fences it
    counters_.resets.add();
    requester->reset(request.route, requests_.token(request));
  }
}

// A transport that does not fence is broken, or a helper process gets no CPU. Completing now would
// let the client reuse memory that may still be written: a late completion is the smaller evil.
void Engine::tell_overdue(Progress& progress) noexcept {
  Operation& operation = client_operation(progress);
  operation.owner->on_overdue(operation);
  timers_.arm(progress, clock_.now_ns() + kOverdueLookNs);
}

// What is given up already, or waits for its completion, ends by itself.
void Engine::end_soon(const OperationEvents& owner, base::TimeNs deadline_ns) noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  for (std::uint32_t i = 0; i < config_.operations; ++i) {
    Progress& progress = progress_[i];
    if (progress.phase != Phase::running || progress.operation->owner != &owner) continue;
    if (progress.deadline_ns > deadline_ns) {
      progress.deadline_ns = deadline_ns;
      progress.operation->cancel_ns = cancel_time(now_ns, deadline_ns);
    }
    transport::RequestHeader& header = progress.operation->header;
    header.deadline_ns = std::min(header.deadline_ns, deadline_ns);
    timers_.arm(progress, next_look_ns(progress, now_ns));
  }
}

}  // namespace simm::engine
