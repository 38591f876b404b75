#include "daemon/engine/engine.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/public_status.h"
#include "daemon/engine/shared_key.h"
#include "simm/check.h"

namespace simm::engine {

using transport::FenceCause;
using transport::PageReply;
using transport::PageRequest;
using transport::RequestToken;

namespace {

// Of an operation that no transport has taken: no number of anybody.
constexpr base::PeerId kNobodyYet{0xffff'fffe};

bool moves_bytes(ipc::Opcode opcode) noexcept {
  return opcode == ipc::Opcode::get || opcode == ipc::Opcode::put;
}

}  // namespace

Engine::Engine(const EngineConfig& config, const base::Clock& clock, PageHasher hasher,
               const Placement& placement, RequesterTable& requesters, EngineCounters counters)
    : config_(config),
      clock_(clock),
      hasher_(hasher),
      placement_(&placement),
      shared_read_routes_(placement),
      hot_read_routes_(placement, &hot_reads_),
      requesters_(requesters),
      counters_(std::move(counters)),
      operations_(config.operations),
      requests_(config.requests),
      timers_(clock.now_ns()),
      progress_(std::make_unique<Progress[]>(config.operations)),
      shares_(config.requests),
      batches_until_timed_(config.stages_one_in) {
  SIMM_CHECK(config.stages_one_in > 0);
  SIMM_CHECK(config.requests > config.fetches);
  SIMM_CHECK(config.operations > config.fetches + config.replicas);
  SIMM_CHECK(config.pages_per_request_max > 0);
}

Engine::~Engine() {
  for (std::uint32_t i = 0; i < config_.operations; ++i) timers_.cancel(progress_[i]);
}

Operation* Engine::allocate() noexcept {
  const std::uint32_t lent = operations_.lent() - fetches_lent_ - replicas_lent_;
  const std::uint32_t most = config_.operations - config_.fetches - config_.replicas;
  Operation* operation = lent < most ? operations_.allocate() : nullptr;
  if (operation == nullptr) counters_.pool_exhausted.add();
  return operation;
}

Operation* Engine::allocate_fetch() noexcept {
  if (fetches_lent_ == config_.fetches) return nullptr;
  Operation* operation = operations_.allocate();
  SIMM_CHECK(operation != nullptr);  // the others leave room for all fetches
  operation->is_fetch = true;
  ++fetches_lent_;
  return operation;
}

void Engine::release(Operation& operation) noexcept {
  if (operation.header.trace_id != 0) {
    operation.header.trace_id = 0;
    operation.header.trace = {};
  }
  if (operation.is_fetch) --fetches_lent_;
  if (operation.is_replica) --replicas_lent_;
  operations_.release(operation);
}

void Engine::submit(Operation& operation) noexcept {
  SIMM_CHECK(operation.page_count <= operation.pages.size() && operation.owner != nullptr);
  const base::TimeNs now_ns = clock_.now_ns();
  Progress& progress = progress_of(operation);
  progress.operation = &operation;
  progress.of_both = replicas_.apply_to(operation);
  progress.oldest = progress.newest = 0;
  progress.phase = Phase::running;
  progress.accepted = false;
  progress.timed_out = false;
  progress.submitted_ns = now_ns;
  progress.timed = is_timed();
  progress.stage_ns =
      progress.timed || operation.header.trace_id != 0 ? clock_.fresh_ns() : base::TimeNs{0};
  if (progress.stage_ns != 0) {
    operation.stamp_ns(base::OperationStamp::queued) = progress.stage_ns;
    operation.first_peer = kNobodyYet;
  }
  begin_patience(progress);
  ++in_flight_;
  counters_.batches.add();
  counters_.pages.add(operation.page_count);
  if (operation.page_count == 0) return finish(progress);

  timers_.arm(progress, next_look_ns(progress, now_ns));
  if (progress.of_both && !transport::is_read(operation.header.opcode)) write_replicas(operation);
  SubRequest* entry = nullptr;
  if (operation.is_fetch) {
    entry = requests_.acquire();
  } else if (waiting_.empty()) {
    entry = requests_.acquire(config_.fetches);
  }
  if (entry == nullptr) {  // behind those that wait already
    waiting_.push_back(progress);
    return;
  }
  start(progress, *entry);
}

int Engine::do_work() noexcept {
  has_hashed_rest_ = false;
  int work = requesters_.do_work();
  work += timers_.advance(clock_.now_ns(), [this](base::Timer& timer) {
    // SAFETY: only objects of type Progress are ever armed on this wheel.
    on_timer(static_cast<Progress&>(timer));
  });
  if (!paused_.empty()) work += resume_paused();
  if (!pending_.empty()) work += post_pending();
  if (!waiting_.empty()) work += start_waiting();
  if (!finished_.empty()) work += complete_finished();
  return work;
}

base::TimeNs Engine::next_deadline_ns() const noexcept {
  if (paused_.empty()) return timers_.next_deadline_ns();
  return std::min(timers_.next_deadline_ns(), paused_.front()->resume_ns);
}

// ---- posting ----

Engine::Progress& Engine::progress_of(const SubRequest& request) noexcept {
  return progress_[request.operation];
}

void Engine::start(Progress& progress, SubRequest& entry) noexcept {
  open_request(progress, entry, 0, progress.operation->page_count);
  const Operation& operation = *progress.operation;
  entry.to_shared_reads = shared_read_routes_.enabled() && is_shared_get(operation);
  entry.of_replicas = progress.of_both && transport::is_read(operation.header.opcode) &&
                      !entry.to_shared_reads && replicas_.begins_with_replicas();
  const bool may_be_hot = shared_read_routes_.enabled() && !entry.to_shared_reads &&
                          !entry.of_replicas && may_be_hot_get(operation);
  entry.of_hot_reads = may_be_hot && hot_reads_.has_any();
  entry.to_shared_reads |= entry.of_hot_reads;
  if (!hash_some(entry)) return;
  if (may_be_hot) {
    const auto pages = std::span(operation.pages).subspan(entry.first, entry.end - entry.first);
    hot_reads_.note(operation.header, pages, progress.submitted_ns);
  }
  dispatch(entry);
}

// Hashes the keys of a request that has no hashes yet, as many as one piece of work may. The other
// pages become a request that waits, unless there is no entry for them. False: the request is over.
bool Engine::hash_some(SubRequest& request) noexcept {
  Progress& progress = progress_of(request);
  Operation& operation = *progress.operation;
  request.stage = Stage::unrouted;
  if (operation.has_hashes) return true;
  const auto scope = hasher_.scope(client_operation(progress).header.tenant,
                                   client_operation(progress).header.name_space);
  auto pages = std::span(operation.pages).subspan(request.first, request.end - request.first);
  pages = PageHasher::hash_first(scope, pages, config_.key_bytes_hashed_max);
  SubRequest* const rest = pages.empty() ? nullptr : acquire_more();
  if (rest != nullptr) {
    const std::uint32_t end =
        std::exchange(request.end, request.end - static_cast<std::uint32_t>(pages.size()));
    open_request(progress, *rest, request.end, end);
    rest->stage = Stage::unhashed;
    rest->to_shared_reads = request.to_shared_reads;
    rest->of_hot_reads = request.of_hot_reads;
    rest->of_replicas = request.of_replicas;
    wait(*rest);
  } else {
    PageHasher::hash_all(scope, pages);
  }
  return !(operation.is_replica || request.of_replicas) || name_replicas(request);
}

// An entry for a part of an operation that has one already.
SubRequest* Engine::acquire_more() noexcept {
  const std::uint32_t firsts = std::min(config_.operations, config_.requests / 2);
  return requests_.acquire(std::max(config_.fetches, firsts));
}

void Engine::open_request(Progress& progress, SubRequest& request, std::uint32_t first,
                          std::uint32_t end) noexcept {
  request.operation = operations_.index_of(*progress.operation);
  request.first = first;
  request.count = 0;
  request.end = end;
  progress.open.push_back(request);
  ++progress.operation->requests_open;
}

// Posts a request that is on no list, and those that are split off from it.
void Engine::dispatch(SubRequest& request) noexcept {
  SubRequest* next = &request;
  while (next != nullptr) {
    SubRequest& current = *next;
    next = split_first_run(current);
    post(current);
  }
}

// Leaves one message for the first owner in `request` and returns the other pages as a request of
// its own. Null when there are none, or no entry for them: then they follow after this message.
SubRequest* Engine::split_first_run(SubRequest& request) noexcept {
  const bool is_current = request.stage == Stage::sorted && request.epoch == placement_->epoch();
  if (is_current && request.count != 0) return nullptr;  // it only waited for credit
  Progress& progress = progress_of(request);
  const Placement& routes = routes_of(request);
  const std::uint32_t end = request.end - request.tail;
  const auto pages =
      std::span(progress.operation->pages).subspan(request.first, end - request.first);
  if (!is_current) {
    router_.sort(pages, routes);
    request.stage = Stage::sorted;
    request.epoch = placement_->epoch();
  }
  request.route = routes.route(base::slot_of(pages[0].group));
  const PageRouter::Run run = PageRouter::first_run(pages, routes, config_.pages_per_request_max,
                                                    config_.key_bytes_per_request_max);
  request.count = run.pages;
  const bool is_lookup = !moves_bytes(progress.operation->header.opcode);
  request.lookup_key_bytes = is_lookup ? run.key_bytes : 0;
  const std::uint32_t rest = request.first + request.count;
  if (rest == end) return nullptr;
  SubRequest* const others = acquire_more();
  if (others == nullptr) return nullptr;
  open_request(progress, *others, rest, request.end);
  others->stage = Stage::sorted;
  others->epoch = request.epoch;
  others->retried = request.retried;
  others->waits_for_map = request.waits_for_map;
  others->to_shared_reads = request.to_shared_reads;
  others->of_hot_reads = request.of_hot_reads;
  others->of_replicas = request.of_replicas;
  others->asked_other = request.asked_other;
  others->tail = std::exchange(request.tail, 0);
  request.end = rest;
  return others;
}

void Engine::post(SubRequest& request) noexcept {
  Progress& progress = progress_of(request);
  Operation& operation = *progress.operation;
  request.request.header = operation.header;
  base::NamespaceId& name_space = request.request.header.name_space;
  if (request.of_replicas) name_space = base::replica_of(name_space);
  if (!operation.header.is_moved) request.request.header.epoch = request.epoch;
  request.request.pages = std::span(operation.pages).subspan(request.first, request.count);
  const RouteShares::Held held = shares_.of(operation.header.tenant, request.route);
  if (!held.has_room_for(request.lookup_key_bytes, config_.lookup_key_bytes_max)) {
    counters_.no_credit.add();
    return wait(request);
  }
  request.request.credits_keep = std::max(held.keep(), operation.may_be_late ? 1u : 0u);
  transport::Requester* requester = requesters_.find(request.route.peer);
  const RequestToken token = requests_.new_token(request);
  if (operation.header.trace_id != 0 && !progress.accepted) {
    operation.stamp_ns(base::OperationStamp::grouped) = clock_.fresh_ns();
  }
  const Status status = requester == nullptr
                            ? Status::unreachable
                            : requester->post(request.route, token, request.request);
  if (status == Status::ok) {
    request.stage = Stage::posted;
    shares_.add(operation.header.tenant, request.route, request.lookup_key_bytes);
    request.waits_for_map = false;
    counters_.requests.add();
    if (!progress.accepted) {
      progress.accepted = true;
      if (progress.stage_ns != 0) operation.first_peer = request.route.peer;
      end_stage(progress, counters_.post_stage_ns, base::OperationStamp::sent);
    }
    return;
  }
  if (status == Status::no_space) {
    counters_.no_credit.add();
    return wait(request);
  }
  counters_.unreachable.add();
  request.waits_for_map = false;  // the pages behind these have not asked anybody yet
  end_message(request, status);
}

bool Engine::is_timed() noexcept {
  if (--batches_until_timed_ > 0) return false;
  batches_until_timed_ = config_.stages_one_in;
  return true;
}

void Engine::end_stage(Progress& progress, base::Histogram& stage_ns,
                       base::OperationStamp stamp) noexcept {
  if (progress.stage_ns == 0) return;
  const base::TimeNs now_ns = clock_.fresh_ns();
  if (progress.timed) stage_ns.record(now_ns - progress.stage_ns);
  progress.stage_ns = now_ns;
  progress.operation->stamp_ns(stamp) = now_ns;
}

void Engine::wait(SubRequest& request) noexcept {
  pending_.push(progress_of(request).operation->header.tenant, request);
}

// All pauses are of one length and maps come in order, so whoever paused first goes on first.
void Engine::pause(SubRequest& request) noexcept {
  request.resume_ns = clock_.now_ns() + config_.map_pause_ns;
  paused_.push_back(request);
}

int Engine::resume_paused() noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  int resumed = 0;
  while (SubRequest* request = paused_.front()) {
    if (request->resume_ns > now_ns && request->epoch == placement_->epoch()) break;
    paused_.remove(*request);
    wait(*request);
    ++resumed;
  }
  return resumed;
}

int Engine::start_waiting() noexcept {
  int started = 0;
  while (Progress* progress = waiting_.front()) {
    SubRequest* entry = requests_.acquire(config_.fetches);
    if (entry == nullptr) break;
    waiting_.remove(*progress);
    start(*progress, *entry);
    ++started;
  }
  return started;
}

// Tries each at most once in a turn. One without credit goes to the end of its tenant's line, so a
// peer that takes nothing does not hold up the others.
int Engine::post_pending() noexcept {
  int posted = 0;
  pending_.take_turns(config_.posts_per_turn, [this, &posted](SubRequest& request) {
    if (request.stage == Stage::unhashed) {
      if (std::exchange(has_hashed_rest_, true)) return wait(request);
      ++posted;  // work: the next rest has its turn though this one may wait for credit
      if (!hash_some(request)) return;
    }
    dispatch(request);
    if (request.stage == Stage::posted) ++posted;
  });
  return posted;
}

// ---- answers ----

void Engine::take_reply(Operation& operation, const PageRequest& page,
                        const PageReply& reply) noexcept {
  Status status = public_status(operation.header.opcode, reply.status);
  if (reply.status == Status::corrupt) counters_.corrupt.add();
  if (reply.status == Status::size_mismatch) counters_.size_mismatches.add();
  const bool is_get = operation.header.opcode == ipc::Opcode::get;
  if (is_get && status == Status::ok && reply.bytes > page.slice.length) {
    counters_.bad_replies.add();
    status = Status::transfer_failed;
  }
  if (status == Status::timeout) progress_of(operation).timed_out = true;
  // An object that was there already (`exists`) did not move.
  if (reply.status == Status::ok && status == Status::ok && page.slice.region != nullptr) {
    operation.bytes_moved += reply.bytes;
  }
  if (!operation.is_fetch && !operation.is_replica) {
    const bool is_ours = status == Status::transfer_failed || status == Status::timeout;
    const Status counted = is_ours ? status : reply.status;
    const auto outcome = static_cast<std::size_t>(page_outcome(counted));
    counters_.of_opcode[static_cast<std::size_t>(operation.header.opcode)].pages[outcome].add();
  }
  operation.replies[page.index] = {status, status == Status::ok ? reply.bytes : 0};
}

bool Engine::may_ask_again(const SubRequest& request) noexcept {
  const Progress& progress = progress_of(request);
  if (progress.phase != Phase::running) return false;
  if (!transport::is_read(progress.operation->header.opcode)) return true;
  return clock_.now_ns() - progress.submitted_ns < config_.read_map_wait_ns;
}

// Whether a page with this answer, which is not a good one, gets another message instead.
bool Engine::stays_open(SubRequest& request, Status status) noexcept {
  if (status == Status::wrong_epoch && may_ask_again(request)) {
    counters_.reroutes.add();
    request.waits_for_map = true;
    return true;
  }
  // No room at a shared-read shard: its owner is asked.
  const bool is_declined = status == Status::no_space && request.route.peer == kSharedReads;
  if (is_declined && progress_of(request).phase == Phase::running) {
    counters_.declined.add();
    request.to_shared_reads = false;
    return true;
  }
  return false;
}

void Engine::on_reply(RequestToken token, std::span<const PageReply> replies) noexcept {
  SubRequest* request = requests_.find(token);
  if (request == nullptr) return counters_.late_replies.add();
  end_post(*request);
  Operation& operation = *progress_of(*request).operation;
  const std::uint32_t first = request->first;
  const std::uint32_t end = first + request->count;
  request->first = end;
  if (replies.size() != request->count) {
    counters_.bad_replies.add();
    answer(*request, first, end, Status::transfer_failed);
    return go_on(*request);
  }
  // Backwards, because pages that stay open are moved to the end of the range, in order, and those
  // that ask the other copy in front of them.
  std::uint32_t other = end;
  for (std::uint32_t at = end; at-- > first;) {
    const PageReply& reply = replies[at - first];
    if (reply.status != Status::ok && stays_open(*request, reply.status)) {
      std::swap(operation.pages[at], operation.pages[--other]);
      std::swap(operation.pages[other], operation.pages[--request->first]);
    } else if (reply.status != Status::ok && may_ask_other(*request, reply.status)) {
      std::swap(operation.pages[at], operation.pages[--other]);
    } else {
      take_reply(operation, operation.pages[at], reply);
    }
  }
  Progress& progress = progress_of(*request);
  progress.answered += other - first;
  if (progress.oldest == 0) progress.oldest = request->epoch;
  progress.newest = request->epoch;
  ask_other_later(*request, other, std::exchange(request->first, other));
  go_on(*request);
}

bool Engine::may_retry(const SubRequest& request, FenceCause cause) noexcept {
  const Progress& progress = progress_of(request);
  return cause == FenceCause::collateral && !request.retried && progress.phase == Phase::running &&
         transport::is_read(progress.operation->header.opcode);
}

void Engine::on_fenced(RequestToken token, FenceCause cause) noexcept {
  SubRequest* request = requests_.find(token);
  if (request == nullptr) return counters_.late_replies.add();
  end_post(*request);
  if (may_retry(*request, cause)) {
    counters_.retries.add();
    request->retried = true;
    return wait(*request);
  }
  const bool gave_up = progress_of(*request).phase != Phase::running;
  end_message(*request, gave_up ? Status::timeout : Status::unreachable);
}

// The same answer for the pages [first, end).
void Engine::answer(SubRequest& request, std::uint32_t first, std::uint32_t end,
                    Status status) noexcept {
  if (first == end) return;
  Operation& operation = *progress_of(request).operation;
  for (std::uint32_t at = first; at < end; ++at) {
    take_reply(operation, operation.pages[at], {status, 0});
  }
}

// All pages of its message have the same answer, or ask the other copy.
void Engine::end_message(SubRequest& request, Status status) noexcept {
  const std::uint32_t end = request.first + request.count;
  if (may_ask_other(request, status)) {
    ask_other_later(request, request.first, end);
  } else {
    answer(request, request.first, end, status);
    request.first = end;
  }
  go_on(request);
}

// It holds no credit any more.
void Engine::end_post(SubRequest& request) noexcept {
  request.stage = Stage::unrouted;
  shares_.remove(progress_of(request).operation->header.tenant, request.route,
                 request.lookup_key_bytes);
}

// After an answer: the pages that are still open, from `first` on, get another message.
void Engine::go_on(SubRequest& request) noexcept {
  if (request.first == request.end) return close_request(request);
  request.count = 0;
  if (request.tail > 0 && send_tail(request)) return;
  const bool has_newest_map = request.epoch == placement_->epoch();
  request.waits_for_map&& has_newest_map ? pause(request) : wait(request);
}

void Engine::close_request(SubRequest& request) noexcept {
  Progress& progress = progress_of(request);
  progress.open.remove(request);
  requests_.release(request);
  if (--progress.operation->requests_open == 0) finish(progress);
}

// ---- the end ----

void Engine::finish(Progress& progress) noexcept {
  timers_.cancel(progress);
  progress.phase = Phase::finished;
  if (progress.accepted) {
    end_stage(progress, counters_.wire_stage_ns, base::OperationStamp::answered);
  }
  Operation* const other = progress.operation->other;
  if (other != nullptr && progress_of(*other).phase != Phase::finished) return;
  finished_.push_back(progress_of(client_operation(progress)));
}

int Engine::complete_finished() noexcept {
  base::TimeNs now_ns = 0;
  // Only those that are finished now: owners may submit new ones from on_complete().
  base::IntrusiveList<Progress, WaitingTag> done;
  done.splice_back(finished_);
  int completed = 0;
  while (Progress* progress = done.pop_front()) {
    Operation& operation = *progress->operation;
    if (operation.other != nullptr) join_copies(*progress);
    if (progress->timed_out) {
      operation.status = Status::timeout;
      counters_.timeouts.add();
    }
    if (marks_ != nullptr && !transport::is_read(operation.header.opcode)) leave_marks(operation);
    counters_.bytes_moved.add(operation.bytes_moved);
    if (!operation.is_fetch) {
      auto& counted = counters_.of_opcode[static_cast<std::size_t>(operation.header.opcode)];
      counted.batches.add();
      counted.bytes.add(operation.bytes_moved);
    }
    --in_flight_;
    ++completed;
    operation.owner->on_complete(operation);
    // Copies take time, so the turn's own reading of the clock would be too early. The client has
    // its answer before another one is taken.
    if (now_ns == 0) now_ns = clock_.fresh_ns();
    counters_.complete_ns.record(now_ns - progress->submitted_ns);
    if (progress->accepted) {
      end_stage(*progress, counters_.complete_stage_ns, base::OperationStamp::completed);
    }
    release(operation);
  }
  return completed;
}

// Whatever became of the write: from here on nobody on this node reads a copy from before it.
void Engine::leave_marks(const Operation& operation) noexcept {
  for (std::uint32_t at = 0; at < operation.page_count; ++at) {
    marks_->mark(operation.pages[at].hash);
  }
}

}  // namespace simm::engine
