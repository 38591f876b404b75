// The data calls of Core: what a synchronous call does from its options to its outcome.
#include <algorithm>
#include <cstdio>

#include "ipc/futex.h"
#include "libclient/core.h"
#include "libclient/last_error.h"
#include "libclient/trace_parent.h"
#include "libclient/units.h"

namespace simm::detail {
namespace {

std::uint64_t bytes_of(const BatchRun& run) noexcept {
  std::uint64_t bytes = 0;
  if (!run.moves_bytes()) return bytes;
  for (std::size_t i = 0; i < run.pages.size(); ++i) {
    // A length that no page can have is refused later; here it must not make the wait endless.
    const std::uint64_t length = run.pages.page(i).view.length();
    bytes += length <= ipc::kValueBytesMax ? length : 0;
  }
  return bytes;
}

}  // namespace

Status Core::prepare(BatchRun& run, const CallOptions& options, std::uint32_t default_timeout_ms,
                     std::uint64_t floor_bytes_per_s) noexcept {
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  if (options.timeout_ms != 0) {
    run.deadline_ns = run.first_deadline_ns = now_ns + options.timeout_ms * kNsPerMs;
  } else {
    run.patience_ns = default_timeout_ms * kNsPerMs;
    if (floor_bytes_per_s != 0) {
      run.patience_ns += static_cast<std::uint64_t>(static_cast<double>(bytes_of(run)) * 1e9 /
                                                    static_cast<double>(floor_bytes_per_s));
    }
    run.first_deadline_ns = now_ns + run.patience_ns;
    run.deadline_ns = now_ns + kPatiencesMax * run.patience_ns;
  }
  if (run.opcode == ipc::Opcode::put && options.mode != PutMode::if_absent &&
      options.mode != PutMode::replace) {
    run.stop(Status::invalid_argument);
    return fail(Status::invalid_argument, "mode: %d; a put has if_absent (%d) or replace (%d)",
                static_cast<int>(options.mode), static_cast<int>(PutMode::if_absent),
                static_cast<int>(PutMode::replace));
  }
  run.put_mode = static_cast<ipc::PutMode>(options.mode);
  run.ttl_ms = options.ttl_ms;
  run.lease_ms = options.lease_ms;
  bool exact = options.exact_size;
  bool shared = options.shared;
  if (const NamespaceRecord* record = options.name_space.record()) {
    if (record->core != this) {
      run.stop(Status::invalid_argument);
      return fail(Status::invalid_argument,
                  "name_space '%s': opened on another daemon's socket: open it with this Client",
                  record->name.c_str());
    }
    run.name_space = options.name_space.record();
    exact = exact || record->kind.exact_size;
    shared = shared || record->kind.shared;
  }
  run.flags = static_cast<std::uint16_t>((exact ? ipc::kFlagExactSize : 0u) |
                                         (shared ? ipc::kFlagShared : 0u) |
                                         (options.ranged ? ipc::kFlagRanged : 0u));
  if (any_trace_parent.load(std::memory_order_relaxed) && trace_parent.is_set) {
    run.flags |= ipc::kFlagTraced;
    run.trace = trace_parent.context;
  }
  return Status::ok;
}

Status Core::carry_out(BatchRun& run, bool reattach) noexcept {
  if (run.all_submitted()) return run.outcome;  // an empty list
  Lane* lane = nullptr;
  if (!link_.ready(reattach, run.first_deadline_ns)) {
    run.stop(fail(Status::unreachable, "no daemon at %s at the moment: start it again",
                  link_.socket_path().c_str()));
  } else if (lane = pool_.borrow(run.deadline_ns); lane == nullptr) {
    run.stop(fail(Status::timeout, "all %zu lanes were taken until the deadline: raise lanes",
                  pool_.all().size()));
  } else {
    if (!bind(*lane)) {
      run.stop(
          fail(Status::unreachable, "the daemon at %s has just gone", link_.socket_path().c_str()));
    } else if (!name_space_known(*lane, run)) {
      run.stop(fail(Status::invalid_state,
                    "name_space '%s': the daemon did not open it again after its restart",
                    run.name_space->name.c_str()));
    }
    run_on(*lane, run);
    pool_.give_back(*lane);
  }
  return run.outcome;
}

bool Core::bind(Lane& lane) noexcept {
  const std::uint32_t generation = link_.generation();
  if (generation != 0 && lane.generation() == generation) return true;
  std::shared_ptr<Session> session = link_.session();
  if (session == nullptr) return false;
  pool_.set_usable(session->lane_count());
  if (lane.index() >= session->lane_count()) return false;
  pool_.unbind_idle(session->generation());
  lane.bind(std::move(session));
  return true;
}

bool Core::name_space_known(const Lane& lane, const BatchRun& run) noexcept {
  std::uint16_t id = 0;
  return run.name_space == nullptr || run.name_space->id(lane.generation(), id);
}

void Core::run_on(Lane& lane, BatchRun& run) noexcept {
  while (!run.finished()) {
    bool pushed = false;
    while (driver_.push_next(lane, run) == LaneDriver::Push::pushed) pushed = true;
    std::uint64_t until_ns = ipc::kNoDeadlineNs;
    if (run.submissions_open == 0) {
      if (!run.all_submitted() && lane.staging_request) {
        await_staging(lane, run);
        continue;
      }
      // The rest had nothing that was worth a submission, or the room is that of calls which have
      // ended without their answers.
      if (run.all_submitted() || lane.idle()) continue;
      until_ns = run.deadline_ns;
    }
    // A daemon that has gone is noticed by the wait.
    if (pushed) (void)lane.session->ring();
    Status reason = Status::ok;
    if (!lane.ring->has_completion()) {
      reason = driver_.wait(lane, ipc::monotonic_now_ns(), until_ns);
    }
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    if (reason == Status::timeout && !LaneDriver::is_silent(lane, now_ns)) {
      end_overdue(lane, run, now_ns);
      continue;
    }
    if (reason == Status::ok && !driver_.collect(lane)) reason = Status::io_error;
    if (reason != Status::ok) return abandon(lane, run, reason);
  }
}

// The session stays: the deadline of one caller says nothing about the daemon.
void Core::await_staging(Lane& lane, BatchRun& run) noexcept {
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  const std::uint64_t patient_ns = lane.staging_request->sent_ns + run.patience_ns;
  const std::uint64_t end_ns =
      std::min(run.deadline_ns, std::max(run.first_deadline_ns, patient_ns));
  if (now_ns >= end_ns) {
    run.stop(fail(Status::timeout,
                  "the daemon at %s has not mapped staging memory in time: is it stopped?",
                  link_.socket_path().c_str()));
    return;
  }
  // Another thread may read the answer off the socket.
  constexpr std::uint64_t kLookNs = 2'000'000;
  const std::uint64_t until_ns = std::min(end_ns, now_ns + kLookNs);
  lane.session->wait_for_message(static_cast<int>((until_ns - now_ns) / kNsPerMs + 1));
}

// The deadline of one caller says nothing about the daemon.
void Core::end_overdue(Lane& lane, BatchRun& run, std::uint64_t now_ns) noexcept {
  driver_.end_overdue(lane, now_ns);
  if (run.outcome != Status::timeout) return;
  run.stop(fail(Status::timeout, "the daemon at %s does not answer: is it stopped?",
                link_.socket_path().c_str()));
}

// The session is of no use any more. Returns when nothing can touch the run's pages.
void Core::abandon(Lane& lane, BatchRun& run, Status reason) noexcept {
  link_.lost(lane.generation());
  run.stop(reason);
  const bool is_silent = reason == Status::timeout || reason == Status::io_error;
  if (is_silent) {
    (void)fail(reason, "the daemon at %s does not answer: is it stopped?",
               link_.socket_path().c_str());
    lane.session->shut_down();
  } else {
    (void)fail(reason, "the daemon at %s has gone in the middle of the call",
               link_.socket_path().c_str());
  }
  constexpr int kLookMs = 10;
  constexpr auto kFenceWaitMs = static_cast<int>(Session::kFenceWaitNs / kNsPerMs);
  const bool is_over = !is_silent && lane.session->fenced(run.moves_bytes() ? kFenceWaitMs : 0);
  while (!is_over && !driver_.take_back_all(lane)) {
    // Memory that can not be made safe: until the daemon runs on or its process has ended.
    if (lane.session->hung_up(kLookMs) && lane.session->fenced(kLookMs)) break;
    // Descriptors that the process has closed, and whose numbers are other files, never hang up.
    if (lane.session->closed_by_daemon()) break;
    if (driver_.collect(lane) && lane.idle()) break;
  }
  driver_.give_up(lane, reason);
}

}  // namespace simm::detail
