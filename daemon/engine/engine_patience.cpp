// Who is waited for: a batch whose bytes move, until its latest deadline, and one that stands for
// patience_ns. What nobody waits for any more has little time.
#include <algorithm>

#include "daemon/engine/engine.h"

namespace simm::engine {
namespace {

// The looks are the engine's own timers, so the data path does not pay for them. Short batches are
// over before the first one.
constexpr base::TimeNs kLooksPerPatience = 4;
constexpr base::TimeNs kLookMinNs = base::kNsPerMs;
// A client takes a daemon for dead that says nothing for a second.
constexpr base::TimeNs kOverdueLookNs = 200 * base::kNsPerMs;

}  // namespace

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
    operation.owner->on_progress(operation);
  }
  if (operation.cancel_ns <= now_ns) return false;
  timers_.arm(progress, next_look_ns(progress, now_ns));
  return true;
}

// A transport that does not fence is broken, or a helper process gets no CPU. Completing now would
// let the client reuse memory that may still be written: a late completion is the smaller evil.
void Engine::tell_overdue(Progress& progress) noexcept {
  Operation& operation = *progress.operation;
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
