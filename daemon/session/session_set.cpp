#include "daemon/session/session_set.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::session {

SessionSet::SessionSet(const SessionSetLimits& limits, engine::OperationSink& engine,
                       const base::Clock& clock, base::Waiter& waiter, SessionCommands& commands,
                       SessionEvents& events, ControlWaker& control, SessionCounters counters)
    : context_{engine, clock, counters_, tracer_, limits.operations_max},
      counters_(std::move(counters)),
      waiter_(waiter),
      commands_(commands),
      events_(events),
      control_(control),
      members_max_(limits.sessions_max),
      tenants_max_(limits.tenants_max),
      tenants_(std::make_unique<Tenant[]>(limits.tenants_max)),
      members_(std::make_unique<Member[]>(limits.sessions_max)) {}

SessionSet::~SessionSet() {
  SIMM_CHECK(session_count_ == 0);
}

int SessionSet::do_work() noexcept {
  tracer_.take_orders(context_.clock);
  int work = run_commands();
  if (resting_ != 0) wake_called();
  work += tend_members();
  work += serve_round();
  return work;
}

// ---- commands ----

int SessionSet::run_commands() noexcept {
  int done = 0;
  SessionCommand command;
  while (done < static_cast<int>(kCommandsPerTurn) && can_emit() && commands_.try_pop(command)) {
    run(command);
    ++done;
  }
  return done;
}

void SessionSet::run(const SessionCommand& command) noexcept {
  Session& session = *command.session;
  SessionEvent answer;
  answer.session = &session;
  answer.cookie = command.cookie;
  // What a command changes is tended to in turns.
  if (Member* const member = member_of(session); member != nullptr) wake(*member);
  switch (command.kind) {
    case SessionCommand::Kind::attach:
      answer.kind = attach(session) ? SessionEvent::Kind::attached : SessionEvent::Kind::refused;
      return emit(answer);
    case SessionCommand::Kind::add_region:
      add_region(command, answer);
      return emit(answer);
    case SessionCommand::Kind::remove_region:
      // The region itself is reported when nothing uses it any more.
      if (session.regions().retire(command.handle) == Status::ok) return;
      answer.kind = SessionEvent::Kind::region_removed;
      return emit(answer);
    case SessionCommand::Kind::open_name_space:
      answer.kind = SessionEvent::Kind::name_space_opened;
      answer.name_space_id = session.name_spaces().open(command.name_space);
      return emit(answer);
    case SessionCommand::Kind::poison:
      if (member_of(session) != nullptr) session.poison(command.reason);
      return;
    case SessionCommand::Kind::drain: {
      Member* const member = member_of(session);
      if (member == nullptr) {  // refused: nothing of it is in use
        answer.kind = SessionEvent::Kind::gone;
        return emit(answer);
      }
      member->leaving = true;
      session.drain(command.client_waits);
      return;
    }
  }
}

void SessionSet::add_region(const SessionCommand& command, SessionEvent& answer) noexcept {
  std::unique_ptr<memory::RegionMemory> region(command.region);
  answer.kind = SessionEvent::Kind::region_added;
  answer.handle = command.session->regions().insert(region);
  answer.region = region.release();  // null when the table took it
}

bool SessionSet::attach(Session& session) noexcept {
  std::uint32_t place = 0;
  while (place < members_max_ && members_[place].session != nullptr) ++place;
  Tenant* const tenant = place < members_max_ ? tenant_for(session.config()) : nullptr;
  if (tenant == nullptr) return false;

  Member& member = members_[place];
  members_used_ = std::max(members_used_, place + 1);
  member.session = &session;
  member.tenant = static_cast<std::uint32_t>(tenant - tenants_.get());
  member.poison_reported = false;
  member.leaving = false;
  member.idle_looks = 0;
  // Without a bell the client can not wake a sleeping daemon; its submissions then wait for the
  // next turn that something else causes.
  member.watched = session.bell_fd() >= 0 && waiter_.watch(session.bell_fd(), session).has_value();
  tenant->members.push_back(member);
  ++tenant->awake;
  ++tenant->share.sessions;
  ++session_count_;
  counters_.attached.set(session_count_);
  session.begin(context_, tenant->share);
  return true;
}

SessionSet::Tenant* SessionSet::tenant_for(const SessionConfig& config) noexcept {
  Tenant* free = nullptr;
  for (std::uint32_t i = 0; i < tenants_max_; ++i) {
    Tenant& tenant = tenants_[i];
    if (tenant.share.sessions == 0) {
      if (free == nullptr) free = &tenant;
    } else if (tenant.share.tenant == config.tenant) {
      return &tenant;
    }
  }
  if (free == nullptr) return nullptr;
  tenants_used_ = std::max(tenants_used_, static_cast<std::uint32_t>(free - tenants_.get()) + 1);
  free->share = {};
  free->share.tenant = config.tenant;
  free->share.bytes_max = config.tenant_bytes_max;
  free->share.operations_max = config.tenant_operations_max;
  return free;
}

SessionSet::Member* SessionSet::member_of(const Session& session) noexcept {
  for (std::uint32_t i = 0; i < members_used_; ++i) {
    if (members_[i].session == &session) return &members_[i];
  }
  return nullptr;
}

void SessionSet::remove(Member& member) noexcept {
  unwatch(member);
  wake(member);
  member.unlink();
  --tenants_[member.tenant].awake;
  --tenants_[member.tenant].share.sessions;
  member.session = nullptr;
  --session_count_;
  counters_.attached.set(session_count_);
}

void SessionSet::unwatch(Member& member) noexcept {
  if (!member.watched) return;
  waiter_.unwatch(member.session->bell_fd());
  member.watched = false;
}

// ---- what is not serving ----

int SessionSet::tend_members() noexcept {
  int work = 0;
  base::TimeNs now_ns = 0;
  for (std::uint32_t i = 0; i < tenants_used_; ++i) {
    Member* next = tenants_[i].members.front();
    while (next != nullptr) {
      Member& member = *next;
      next = tenants_[i].members.next(member);  // it may leave
      if (member.session->has_held() && now_ns == 0) now_ns = context_.clock.now_ns();
      work += tend(member, now_ns);
    }
  }
  return work;
}

int SessionSet::tend(Member& member, base::TimeNs now_ns) noexcept {
  Session& session = *member.session;
  int work = session.has_held() ? session.expire_held(now_ns) : 0;
  if (session.hung_up()) unwatch(member);
  while (can_emit()) {
    std::unique_ptr<memory::RegionMemory> region = session.regions().take_idle();
    if (region == nullptr) break;
    SessionEvent event;
    event.kind = SessionEvent::Kind::region_removed;
    event.session = &session;
    event.region = region.release();
    emit(event);
    ++work;
  }
  if (session.phase() == Session::Phase::ended) work += report(member);
  return work;
}

int SessionSet::report(Member& member) noexcept {
  SessionEvent event;
  event.session = member.session;
  event.reason = member.session->poison_reason();
  int work = 0;
  if (event.reason != ipc::PoisonReason::none && !member.poison_reported && can_emit()) {
    event.kind = SessionEvent::Kind::poisoned;
    member.poison_reported = true;
    emit(event);
    ++work;
  }
  if (member.leaving && can_emit()) {
    event.kind = SessionEvent::Kind::gone;
    remove(member);
    emit(event);
    ++work;
  }
  return work;
}

// ---- resting ----

// After a fruitless look. Without a bell a client could not ring.
bool SessionSet::try_rest(Member& member) noexcept {
  if (!member.watched || member.session->has_entries()) {
    member.idle_looks = 0;
    return false;
  }
  const base::TimeNs now_ns = context_.clock.now_ns();
  if (++member.idle_looks == 1) member.idle_since_ns = now_ns;
  if (member.idle_looks < kRestLooks || now_ns - member.idle_since_ns < kRestNs) return false;
  if (!member.session->try_rest()) return false;
  member.unlink();
  --tenants_[member.tenant].awake;
  member.is_resting = true;
  ++resting_;
  counters_.resting.set(resting_);
  return true;
}

void SessionSet::wake(Member& member) noexcept {
  if (!member.is_resting) return;
  member.session->end_rest();
  member.is_resting = false;
  member.idle_looks = 0;
  tenants_[member.tenant].members.push_back(member);
  ++tenants_[member.tenant].awake;
  --resting_;
  counters_.resting.set(resting_);
}

void SessionSet::wake_called() noexcept {
  const base::TimeNs due = (context_.clock.now_ns() - looked_ns_) / kRestLookNs;
  looked_ns_ += due * kRestLookNs;
  const bool looks_at_all = std::exchange(context_.has_rung, false);
  const base::TimeNs places =
      looks_at_all ? members_used_ : std::min<base::TimeNs>(members_used_, due);
  for (base::TimeNs n = 0; n < places; ++n) {
    next_rester_ = next_rester_ + 1 < members_used_ ? next_rester_ + 1 : 0;
    Member& member = members_[next_rester_];
    if (member.is_resting && member.session->is_called()) wake(member);
  }
}

// ---- serving ----

int SessionSet::serve_round() noexcept {
  for (std::uint32_t i = 0; i < tenants_used_; ++i) tenants_[i].share.add_rounds(1);
  int served = serve_those_with_credit();
  if (served == 0) {
    const std::int64_t rounds = rounds_of_debtors();
    for (std::uint32_t i = 0; rounds > 0 && i < tenants_used_; ++i) {
      tenants_[i].share.add_rounds(rounds);
    }
    if (rounds > 0) served = serve_those_with_credit();
  }
  if (tenants_used_ > 0) first_tenant_ = (first_tenant_ + 1) % tenants_used_;
  counters_.turn_entries_max.raise(static_cast<std::uint64_t>(served));
  return served;
}

int SessionSet::serve_those_with_credit() noexcept {
  int served = 0;
  for (std::uint32_t n = 0; n < tenants_used_; ++n) {
    Tenant& tenant = tenants_[(first_tenant_ + n) % tenants_used_];
    if (tenant.awake != 0 && tenant.share.credit > 0) served += serve(tenant);
  }
  return served;
}

// More rounds at once when only tenants in debt have work, so that the agent never idles while
// somebody wants it. 0: nobody needs them, or somebody with credit has work that is blocked.
std::int64_t SessionSet::rounds_of_debtors() noexcept {
  std::int64_t rounds = 0;
  bool has_debtor = false;
  for (std::uint32_t i = 0; i < tenants_used_ && !has_debtor; ++i) {
    has_debtor = tenants_[i].share.credit <= 0;
  }
  if (!has_debtor) return 0;
  for (std::uint32_t i = 0; i < tenants_used_; ++i) {
    if (tenants_[i].awake == 0 || !has_work(tenants_[i])) continue;
    const std::int64_t missing = tenants_[i].share.rounds_until_turn();
    if (missing == 0) return 0;
    rounds = rounds == 0 ? missing : std::min(rounds, missing);
  }
  return rounds;
}

int SessionSet::serve(Tenant& tenant) noexcept {
  std::uint32_t entries = 0;
  std::uint32_t fruitless = 0;
  std::uint32_t idle_lanes = 0;
  while (entries < kEntriesPerTurn && tenant.share.credit > 0 && fruitless < tenant.awake &&
         idle_lanes < kIdleLanesPerTurn) {
    Member& member = *tenant.members.front();
    tenant.members.move_to_back(member);
    // A look at the rings is cheaper than a try at each lane.
    const bool is_idle = !member.session->has_held() && !member.session->has_submissions();
    if (!is_idle && member.session->take_one() == Session::Step::served) {
      ++entries;
      fruitless = 0;
      member.idle_looks = 0;
      continue;
    }
    idle_lanes += member.session->lanes();
    if (!try_rest(member)) ++fruitless;
  }
  counters_.entries_max.raise(entries);
  return static_cast<int>(entries);
}

bool SessionSet::has_work(Tenant& tenant) noexcept {
  for (Member* member = tenant.members.front(); member != nullptr;
       member = tenant.members.next(*member)) {
    if (member->session->has_held() || member->session->has_submissions()) return true;
  }
  return false;
}

// ---- sleeping, faults, events ----

base::TimeNs SessionSet::next_deadline_ns() const noexcept {
  base::TimeNs earliest = base::kNoDeadline;
  for (std::uint32_t i = 0; i < members_used_; ++i) {
    if (members_[i].session == nullptr || members_[i].is_resting) continue;
    earliest = std::min(earliest, members_[i].session->next_deadline_ns());
  }
  // An event waits for room in its mailbox, and nobody tells us when there is: look again soon.
  if (has_kept_event_) earliest = std::min(earliest, context_.clock.now_ns() + base::kNsPerMs);
  return earliest;
}

bool SessionSet::prepare_sleep() noexcept {
  for (std::uint32_t i = 0; i < members_used_; ++i) {
    if (members_[i].session != nullptr && !members_[i].is_resting) {
      members_[i].session->announce_sleep();
    }
  }
  // One at rest has announced its sleep already and was looked at: who rings it has said so.
  bool is_quiet = true;
  for (std::uint32_t i = 0; i < members_used_ && is_quiet; ++i) {
    Member& member = members_[i];
    if (member.session == nullptr) continue;
    is_quiet =
        member.is_resting ? !member.session->is_called() : !member.session->has_submissions();
  }
  if (!is_quiet) context_.has_rung = true;
  return is_quiet;
}

void SessionSet::cancel_sleep() noexcept {
  for (std::uint32_t i = 0; i < members_used_; ++i) {
    if (members_[i].session != nullptr && !members_[i].is_resting) {
      members_[i].session->withdraw_sleep();
    }
  }
}

void SessionSet::on_region_fault(const memory::Region& region) noexcept {
  for (std::uint32_t i = 0; i < members_used_; ++i) {
    Session* const session = members_[i].session;
    if (session != nullptr && session->config().id == region.session_id) {
      wake(members_[i]);
      session->poison(ipc::PoisonReason::region_fault);
    }
  }
}

bool SessionSet::can_emit() noexcept {
  if (has_kept_event_ && events_.try_push(kept_event_)) {
    has_kept_event_ = false;
    control_.wake_control();
  }
  return !has_kept_event_;
}

void SessionSet::emit(const SessionEvent& event) noexcept {
  if (events_.try_push(event)) {
    control_.wake_control();
    return;
  }
  kept_event_ = event;
  has_kept_event_ = true;
}

}  // namespace simm::session
