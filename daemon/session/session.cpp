#include "daemon/session/session.h"

#include <sys/epoll.h>

#include <algorithm>

#include "daemon/base/agent.h"
#include "daemon/memory/region_pages.h"
#include "simm/check.h"

namespace simm::session {
namespace {

// Operation::owner_data: lane in bits 0-7, slice bytes above. The bytes need 41 bits at most (1,024
// pages of 1 GiB).
constexpr std::uint32_t kBytesShift = 8;
// To read the clock costs as much as to check a small submission.
constexpr std::uint64_t kValidationsTimedOneIn = 64;
static_assert(ipc::kLanesMax <= 256);
static_assert(std::uint64_t{ipc::kPagesPerSubmissionMax} * ipc::kValueBytesMax <=
              (std::uint64_t{1} << (64 - kBytesShift)) - 1);

std::uint64_t pack(std::uint32_t lane, std::uint64_t bytes) noexcept {
  return bytes << kBytesShift | lane;
}

base::TimeNs deadline_of(ipc::Submission submission, const SessionLimits& limits,
                         base::TimeNs now_ns) noexcept {
  const base::TimeNs asked =
      submission.timeout_ns == 0 ? limits.timeout_default_ns : submission.timeout_ns;
  return now_ns + std::min(asked, limits.timeout_max_ns);
}

// Half of its patience is left then for the way of the news.
base::TimeNs tell_time(const ipc::Submission& submission, base::TimeNs now_ns) noexcept {
  const base::TimeNs half_ns = submission.patience_ns / 2;
  if (half_ns == 0 || half_ns > base::kNoDeadline - now_ns) return base::kNoDeadline;
  return now_ns + half_ns;
}

}  // namespace

Session::Session(const SessionConfig& config, std::byte* memory, ipc::BellSocket bell)
    : config_(config),
      words_(reinterpret_cast<ipc::SessionHeader*>(memory)),
      bell_(std::move(bell)),
      regions_(config.limits.regions_max),
      name_spaces_(config.limits.name_spaces_max, config.default_name_space),
      decoder_(regions_, name_spaces_) {
  SIMM_CHECK(config.lane_count > 0 && config.lane_count <= ipc::kLanesMax);
  lanes_.reserve(config.lane_count);
  for (std::uint32_t i = 0; i < config.lane_count; ++i) {
    lanes_.emplace_back(ipc::LaneMemory(ipc::lane_base(memory, i)));
  }
}

Session::~Session() {
  SIMM_CHECK(in_flight_ == 0 && held_count_ == 0);
}

void Session::begin(SessionContext& context, TenantShare& share) noexcept {
  context_ = &context;
  share_ = &share;
  if (context.tracer.exports() != nullptr) words_.take_traces();
  words_.publish_state(ipc::SessionState::open);
}

Session::Step Session::take_one() noexcept {
  if (phase_ != Phase::active) return Step::stopped;
  bool blocked = false;
  for (std::size_t tried = 0; tried < lanes_.size(); ++tried) {
    const std::uint32_t lane = next_lane_;
    next_lane_ = lane + 1 == lanes_.size() ? 0 : lane + 1;
    const Step step = take_from(lane);
    if (step == Step::served || step == Step::stopped) return step;
    blocked = blocked || step == Step::blocked;
  }
  return blocked ? Step::blocked : Step::idle;
}

Session::Step Session::take_from(std::uint32_t lane_index) noexcept {
  Lane& lane = lanes_[lane_index];
  if (lane.held.present) return advance(lane_index);

  ipc::Submission submission;
  switch (lane.end.poll_submission(submission)) {
    case ipc::Poll::empty:
      return Step::idle;
    case ipc::Poll::broken:
      poison(lane.end.reason());
      return Step::stopped;
    case ipc::Poll::taken:
      break;
  }
  const ipc::PoisonReason breach = decoder_.check(submission);
  if (breach != ipc::PoisonReason::none) {
    poison(breach);
    return Step::stopped;
  }
  context_->counters.submissions.add();
  lane.held.present = true;
  lane.held.waited = false;
  lane.held.submission = submission;
  lane.held.taken_ns = context_->clock.now_ns();
  lane.held.trace_id = 0;
  if (context_->tracer.watches()) begin_trace(lane);
  lane.held.deadline_ns = deadline_of(submission, config_.limits, lane.held.taken_ns);
  lane.held.tell_ns = tell_time(submission, lane.held.taken_ns);
  ++held_count_;
  return advance(lane_index);
}

// Takes the lane's submission as far as it goes: answered, submitted, or blocked by a limit.
Session::Step Session::advance(std::uint32_t lane_index) noexcept {
  Lane& lane = lanes_[lane_index];
  if (static_cast<ipc::Opcode>(lane.held.submission.opcode) == ipc::Opcode::noop) {
    share_->pay(kOperationCost);
    answer(lane, Status::ok);
    return Step::served;
  }
  if (lane.held.operation == nullptr) {
    lane.held.waits_for_bandwidth = waits_for_bandwidth(lane.held);
    if (lane.held.waits_for_bandwidth) return blocked(lane.held, HeldFor::bandwidth);
    const Step step = decode(lane);
    if (lane.held.operation == nullptr) return step;
  }
  return submit(lane_index);
}

// On return the lane holds a decoded operation, or the returned step is the answer.
Session::Step Session::decode(Lane& lane) noexcept {
  Held& held = lane.held;
  engine::Operation* const operation =
      share_->may_borrow(context_->operations_unused) ? context_->engine.allocate() : nullptr;
  if (operation == nullptr) return blocked(held, HeldFor::operations);
  SessionCounters& counters = context_->counters;
  const bool is_timed = counters.submissions.value() % kValidationsTimedOneIn == 0;
  const bool is_stamped = is_timed || held.trace_id != 0;
  const base::TimeNs began_ns = is_stamped ? context_->clock.fresh_ns() : 0;
  const Decoded decoded = decoder_.decode(held.submission, lane.end, *operation);
  if (is_stamped) {
    const base::TimeNs ended_ns = context_->clock.fresh_ns();
    if (is_timed) counters.validate_stage_ns.record(ended_ns - began_ns);
    held.stamp(base::OperationStamp::admitted, began_ns);
    held.stamp(base::OperationStamp::validated, ended_ns);
  }
  share_->pay(kOperationCost + held.submission.page_count * kPageCost + decoded.key_bytes);
  if (decoded.breach != ipc::PoisonReason::none) {
    context_->engine.release(*operation);
    poison(decoded.breach);
    return Step::stopped;
  }
  if (decoded.status != Status::ok) {
    context_->engine.release(*operation);
    answer(lane, decoded.status);
    return Step::served;
  }
  ++share_->operations;
  --context_->operations_unused;
  held.operation = operation;
  held.slice_bytes = decoded.slice_bytes;
  hold_regions(*operation);
  return Step::served;
}

Session::Step Session::submit(std::uint32_t lane_index) noexcept {
  Held& held = lanes_[lane_index].held;
  if (!share_->has_room_for(held.slice_bytes)) return blocked(held, HeldFor::bytes);
  engine::Operation& operation = *held.operation;
  operation.header.tenant = config_.tenant;
  operation.header.deadline_ns = held.deadline_ns;
  operation.header.patience_ns = held.submission.patience_ns;
  // Its patience begins anew.
  if (held.waited && held.tell_ns != base::kNoDeadline) words_.tell_progress();
  operation.header.trace_id = held.trace_id;
  if (held.trace_id != 0) {
    operation.stamps_ns = held.stamps_ns;
    operation.trace_mark = held.trace_mark;
    const base::TraceParent& parent = held.trace_mark.parent;
    if (held.trace_mark.is_exported) operation.header.trace = {parent.trace_high, parent.trace_low};
  }
  operation.owner = this;
  operation.owner_data = pack(lane_index, held.slice_bytes);
  share_->bytes += held.slice_bytes;
  share_->pay(held.slice_bytes);
  if (config_.bandwidth != nullptr && held.slice_bytes != 0) {
    share_->bandwidth_turn.pay(*config_.bandwidth, held.slice_bytes, context_->clock.now_ns());
  }
  context_->counters.pages.add(operation.page_count);
  if (held.waited) {
    context_->counters.queue_stage_ns.record(context_->clock.now_ns() - held.taken_ns);
  }
  held.present = false;
  held.operation = nullptr;
  --held_count_;
  ++in_flight_;
  context_->engine.submit(operation);
  return Step::served;
}

// Before anything is lent to it: a tenant above its bandwidth waits in its rings, with nothing of
// the others. How many bytes it wants is not known before it is decoded, so it is taken while the
// tenant owes little, and its bytes are what the next one waits for.
bool Session::waits_for_bandwidth(const Held& held) noexcept {
  if (config_.bandwidth == nullptr) return false;
  const auto opcode = static_cast<ipc::Opcode>(held.submission.opcode);
  if (opcode != ipc::Opcode::get && opcode != ipc::Opcode::put) return false;
  return !share_->bandwidth_turn.may_take(*config_.bandwidth, context_->clock.now_ns());
}

Session::Step Session::blocked(Held& held, HeldFor what) noexcept {
  if (!std::exchange(held.waited, true)) {
    context_->counters.held[static_cast<std::size_t>(what)].add();
    if (config_.traffic != nullptr) config_.traffic->held[static_cast<std::size_t>(what)].add(1);
  }
  return Step::blocked;
}

// ---- tracing ----

// Of most operations nobody is told.
void Session::begin_trace(Lane& lane) noexcept {
  base::TraceExport* const exported = context_->tracer.exports();
  const bool says_trace = (lane.held.submission.flags & ipc::kFlagTraced) != 0;
  const bool is_next = exported != nullptr && !says_trace && !exported->passes_over();
  if (is_next || says_trace || context_->tracer.on()) sample(lane, says_trace, is_next);
}

void Session::sample(Lane& lane, bool says_trace, bool is_next) noexcept {
  Held& held = lane.held;
  base::Tracer& tracer = context_->tracer;
  base::TraceExport* const exported = tracer.exports();
  base::TraceParent parent;
  if (says_trace) {
    const ipc::TraceContext said = lane.end.copy_trace();
    parent = {said.trace_high, said.trace_low, said.parent};
    // One of zeros is none, so it is as rarely chosen as any other.
    is_next = exported != nullptr && (parent.is_set() || !exported->passes_over());
  }
  if (tracer.on()) held.trace_id = tracer.choose();
  held.trace_mark = {.is_recorded = held.trace_id != 0, .parent = {}};
  if (is_next && exported->choose(parent, share_->traces, held.taken_ns)) {
    held.trace_mark.is_exported = true;
    held.trace_mark.parent = parent;
    if (held.trace_id == 0) held.trace_id = exported->new_id();
  }
  if (held.trace_id == 0) return;
  held.stamps_ns = {};
  held.stamp(base::OperationStamp::begun, context_->clock.fresh_ns());
}

// One that the session answered itself.
void Session::end_trace(const Held& held, Status status) noexcept {
  base::TraceRecord record;
  record.id = held.trace_id;
  record.tenant = config_.tenant.value;
  record.pages = held.submission.page_count;
  record.status = static_cast<std::int32_t>(status);
  record.opcode = held.submission.opcode;
  record.stamps_ns = held.stamps_ns;
  record.stamp(base::OperationStamp::completed, context_->clock.fresh_ns());
  tell_trace(record, held.trace_mark);
}

void Session::end_trace(engine::Operation& operation, std::uint32_t pages_ok) noexcept {
  base::TraceRecord record;
  record.id = operation.header.trace_id;
  record.tenant = config_.tenant.value;
  record.bytes = operation.bytes_moved;
  record.pages = operation.page_count;
  record.pages_ok = pages_ok;
  record.status = static_cast<std::int32_t>(operation.status);
  record.peer = operation.first_peer.value;
  record.opcode = static_cast<std::uint8_t>(operation.header.opcode);
  record.stamps_ns = operation.stamps_ns;
  record.stamp(base::OperationStamp::completed, context_->clock.fresh_ns());
  tell_trace(record, operation.trace_mark);
}

void Session::tell_trace(const base::TraceRecord& record, const base::TraceMark& mark) noexcept {
  if (mark.is_recorded) context_->tracer.push(record);
  if (mark.is_exported) context_->tracer.exports()->push({record, mark.parent});
}

void Session::on_complete(engine::Operation& operation) noexcept {
  const auto lane_index = static_cast<std::uint32_t>(operation.owner_data & 0xff);
  Lane& lane = lanes_[lane_index];
  std::uint32_t pages_ok = 0;
  std::uint32_t pages_missing = 0;
  bool has_refused = false;
  for (std::uint32_t i = 0; i < operation.page_count; ++i) {
    const transport::PageReply& reply = operation.replies[i];
    if (reply.status == Status::ok) ++pages_ok;
    if (reply.status == Status::not_found) ++pages_missing;
    if (reply.status == Status::out_of_memory) has_refused = true;
    lane.end.write_result(operation.page_first + i,
                          {static_cast<std::int32_t>(reply.status), 0, reply.bytes});
  }
  if (has_refused) name_absent_pages(lane, operation);
  count_moved(operation, pages_ok + pages_missing == operation.page_count);
  share_->bytes -= operation.owner_data >> kBytesShift;
  --share_->operations;
  ++context_->operations_unused;
  --in_flight_;
  drop_regions(operation);
  // Carried out, also where a page got no answer in time: each page has its own result.
  publish(lane, {operation.client_token, static_cast<std::int32_t>(Status::ok), pages_ok,
                 operation.bytes_moved, 0});
  if (operation.header.trace_id != 0) end_trace(operation, pages_ok);
  end_if_empty();
}

// `is_clear`: each page is there or is not. Of others nobody knows what moved before they ended, so
// their bytes stay paid: a client that gives up early gets no more than one that waits.
void Session::count_moved(const engine::Operation& operation, bool is_clear) noexcept {
  const std::uint64_t slice_bytes = operation.owner_data >> kBytesShift;
  const std::uint64_t moved_bytes = std::min(operation.bytes_moved, slice_bytes);
  if (config_.bandwidth != nullptr && is_clear && moved_bytes < slice_bytes) {
    config_.bandwidth->give_back(slice_bytes - moved_bytes);
  }
  if (config_.traffic == nullptr || operation.bytes_moved == 0) return;
  const bool is_get = operation.header.opcode == ipc::Opcode::get;
  (is_get ? config_.traffic->got_bytes : config_.traffic->put_bytes).add(operation.bytes_moved);
}

// Tells the client of pages that failed because their memory is absent: it can do something.
void Session::name_absent_pages(Lane& lane, const engine::Operation& operation) noexcept {
  for (std::uint32_t i = 0; i < operation.page_count; ++i) {
    const transport::PageRequest& page = operation.pages[i];
    const transport::PageReply& reply = operation.replies[page.index];
    const memory::Region* const region = page.slice.region;
    if (reply.status != Status::out_of_memory || region == nullptr) continue;
    if (region->pages == nullptr || !region->pages->has_refused()) continue;
    context_->counters.absent_pages.add();
    lane.end.write_result(operation.page_first + page.index,
                          {static_cast<std::int32_t>(reply.status), ipc::kDetailAbsent, 0});
  }
}

// Completes the lane's held submission as a whole with `status`, without the engine.
void Session::answer(Lane& lane, Status status) noexcept {
  give_back(lane.held);
  const ipc::Submission& submission = lane.held.submission;
  for (std::uint32_t i = 0; i < submission.page_count; ++i) {
    lane.end.write_result(submission.page_first + i, {static_cast<std::int32_t>(status), 0, 0});
  }
  lane.held.present = false;
  --held_count_;
  publish(lane, {submission.token, static_cast<std::int32_t>(status), 0, 0, 0});
  if (lane.held.trace_id != 0) end_trace(lane.held, status);
}

void Session::give_back(Held& held) noexcept {
  if (held.operation == nullptr) return;
  drop_regions(*held.operation);
  context_->engine.release(*held.operation);
  held.operation = nullptr;
  --share_->operations;
  ++context_->operations_unused;
}

// Page by page, because the engine may have put the pages into another order in between.
void Session::hold_regions(const engine::Operation& operation) noexcept {
  for (std::uint32_t i = 0; i < operation.page_count; ++i) {
    const memory::Region* const region = operation.pages[i].slice.region;
    if (region != nullptr) regions_.hold(*region);
  }
}

void Session::drop_regions(const engine::Operation& operation) noexcept {
  for (std::uint32_t i = 0; i < operation.page_count; ++i) {
    const memory::Region* const region = operation.pages[i].slice.region;
    if (region != nullptr) regions_.drop(*region);
  }
}

void Session::publish(Lane& lane, const ipc::Completion& completion) noexcept {
  context_->counters.completions.add();
  finish_wake(lane.end.publish_completion(completion));
}

void Session::finish_wake(ipc::Wake due) noexcept {
  if (due == ipc::Wake::none) return;
  if (due == ipc::Wake::done) {
    context_->counters.wakes_futex.add();
    return;
  }
  context_->counters.wakes_bell.add();
  if (!bell_.ring()) hung_up_ = true;
}

bool Session::has_submissions() const noexcept {
  if (phase_ != Phase::active) return false;
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return !lane.held.present && lane.end.has_submissions();
  });
}

bool Session::try_rest() noexcept {
  if (phase_ != Phase::active || hung_up_ || has_entries()) return false;
  words_.announce_sleep();
  is_resting_ = !has_submissions();
  if (!is_resting_) words_.withdraw_sleep();
  return is_resting_;
}

void Session::end_rest() noexcept {
  is_resting_ = has_rung_ = false;
  words_.withdraw_sleep();
}

int Session::expire_held(base::TimeNs now_ns) noexcept {
  if (held_count_ == 0) return 0;
  int expired = 0;
  for (Lane& lane : lanes_) {
    if (!lane.held.present) continue;
    if (now_ns < lane.held.deadline_ns) {
      tell_if_due(lane.held, now_ns);
      continue;
    }
    context_->counters.held_timeouts.add();
    answer(lane, Status::timeout);
    ++expired;
  }
  return expired;
}

void Session::tell_if_due(Held& held, base::TimeNs now_ns) noexcept {
  if (now_ns < held.tell_ns) return;
  held.tell_ns = tell_time(held.submission, now_ns);
  words_.tell_progress();
}

base::TimeNs Session::next_deadline_ns() const noexcept {
  base::TimeNs earliest = base::kNoDeadline;
  if (held_count_ == 0) return earliest;
  for (const Lane& lane : lanes_) {
    if (!lane.held.present) continue;
    earliest = std::min({earliest, lane.held.deadline_ns, lane.held.tell_ns});
    if (lane.held.waits_for_bandwidth) {
      earliest = std::min(earliest, share_->bandwidth_turn.from_ns());
    }
  }
  return earliest;
}

void Session::drain(bool waits) noexcept {
  if (!waits) end_soon();
  if (phase_ != Phase::active) return;
  phase_ = Phase::draining;
  words_.publish_state(ipc::SessionState::draining);
  end_held(Status::invalid_state);
  end_if_empty();
}

void Session::poison(ipc::PoisonReason reason) noexcept {
  if (phase_ == Phase::poisoned || phase_ == Phase::ended) return;
  phase_ = Phase::poisoned;
  reason_ = reason;
  context_->counters.poisoned[static_cast<std::size_t>(reason)].add();
  end_soon();
  end_held(Status::poisoned);
  end_if_empty();
}

void Session::end_held(Status status) noexcept {
  for (Lane& lane : lanes_) {
    if (lane.held.present) answer(lane, status);
  }
}

void Session::end_soon() noexcept {
  if (in_flight_ == 0) return;
  context_->engine.end_soon(*this, context_->clock.now_ns() + kGoneClientNs);
}

// The last word of the session: published once, after its last completion.
void Session::end_if_empty() noexcept {
  if (phase_ == Phase::active || phase_ == Phase::ended || in_flight_ != 0) return;
  if (phase_ == Phase::poisoned) {
    words_.publish_poisoned(reason_);
  } else {
    words_.publish_state(ipc::SessionState::closed);
  }
  phase_ = Phase::ended;
  for (Lane& lane : lanes_) finish_wake(lane.end.wake_client());
}

void Session::on_fd_ready(std::uint32_t epoll_events) noexcept {
  has_rung_ = is_resting_;
  if (is_resting_) context_->has_rung = true;
  const bool open = bell_.drain();
  if (!open || (epoll_events & (EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
}

}  // namespace simm::session
