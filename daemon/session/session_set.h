// SessionSet: the sessions of one data agent. Serves them in rounds that share the agent fairly
// between tenants (TenantShare) and, within a tenant, entry by entry between its sessions. A turn
// is bounded: at most kEntriesPerTurn entries of a tenant and kCommandsPerTurn commands.
//
// A session without traffic leaves the round: each of its lanes is a cache line that every turn
// would look at. It rests with its sleep announced, as if the agent slept, and its client rings at
// the next submission. That takes the announcement back, and an agent that is awake looks for it
// at a few sessions in each turn; so no turn asks the kernel. Of one that sleeps the bell wakes
// the agent.
//
// The control thread hands sessions over and takes them back by mailbox (session_mail.h); it never
// touches a session between `attach` and `gone`. An event that finds its mailbox full is kept, and
// no command is taken before it is delivered.
//
// Thread: its data agent; the far ends of the mailboxes are the control thread's.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/base/intrusive_list.h"
#include "daemon/base/waiter.h"
#include "daemon/engine/operation.h"
#include "daemon/session/session.h"
#include "daemon/session/session_mail.h"
#include "daemon/session/tenant_share.h"
#include "daemon/transport/region_faults.h"

namespace simm::session {

struct SessionSetLimits {
  std::uint32_t sessions_max = 256;
  std::uint32_t tenants_max = base::kTenantsServedMax;
  std::uint32_t operations_max = ~0u;  // of the engine, that sessions may have: all tenants
};

class SessionSet final : public base::Agent, public transport::RegionFaults {
public:
  // Everything it refers to outlives it. Allocates; at the end no session may be attached.
  SessionSet(const SessionSetLimits& limits, engine::OperationSink& engine,
             const base::Clock& clock, base::Waiter& waiter, SessionCommands& commands,
             SessionEvents& events, ControlWaker& control, SessionCounters counters = {});
  ~SessionSet() override;

  // Agent.
  int do_work() noexcept override;
  base::TimeNs next_deadline_ns() const noexcept override;
  bool prepare_sleep() noexcept override;
  void cancel_sleep() noexcept override;
  const char* name() const noexcept override { return "sessions"; }

  // RegionFaults: poisons the session whose region it is.
  void on_region_fault(const memory::Region& region) noexcept override;

  [[nodiscard]] std::uint32_t sessions() const noexcept { return session_count_; }
  // Of this agent; its orders are taken in do_work().
  [[nodiscard]] base::Tracer& tracer() noexcept { return tracer_; }

private:
  struct TenantTag {};
  struct Member : base::ListLink<TenantTag> {
    Session* session = nullptr;  // null: a free place
    std::uint32_t tenant = 0;
    bool watched = false;
    bool poison_reported = false;
    bool leaving = false;     // drain was commanded
    bool is_resting = false;  // not on its tenant's list
    std::uint32_t idle_looks = 0;
    base::TimeNs idle_since_ns = 0;  // when idle_looks was 1
  };
  struct Tenant {
    TenantShare share;                               // share.sessions == 0: a free place
    base::IntrusiveList<Member, TenantTag> members;  // in the round
    std::uint32_t awake = 0;                         // so many
  };

  int run_commands() noexcept;
  void run(const SessionCommand& command) noexcept;
  [[nodiscard]] bool attach(Session& session) noexcept;
  void add_region(const SessionCommand& command, SessionEvent& answer) noexcept;
  [[nodiscard]] Tenant* tenant_for(const SessionConfig& config) noexcept;
  void remove(Member& member) noexcept;
  [[nodiscard]] Member* member_of(const Session& session) noexcept;

  int tend_members() noexcept;
  int tend(Member& member, base::TimeNs now_ns) noexcept;
  int report(Member& member) noexcept;
  void unwatch(Member& member) noexcept;

  bool try_rest(Member& member) noexcept;
  void wake(Member& member) noexcept;
  void wake_called() noexcept;

  int serve_round() noexcept;
  int serve_those_with_credit() noexcept;
  [[nodiscard]] std::int64_t rounds_of_debtors() noexcept;
  int serve(Tenant& tenant) noexcept;
  [[nodiscard]] static bool has_work(Tenant& tenant) noexcept;

  [[nodiscard]] bool can_emit() noexcept;
  void emit(const SessionEvent& event) noexcept;

  base::Tracer tracer_;
  SessionContext context_;
  SessionCounters counters_;
  base::Waiter& waiter_;
  SessionCommands& commands_;
  SessionEvents& events_;
  ControlWaker& control_;

  const std::uint32_t members_max_;
  const std::uint32_t tenants_max_;
  const std::unique_ptr<Tenant[]> tenants_;  // outlives the members on its lists
  const std::unique_ptr<Member[]> members_;
  std::uint32_t members_used_ = 0;  // places ever used: what a sweep looks at
  std::uint32_t tenants_used_ = 0;
  std::uint32_t session_count_ = 0;
  std::uint32_t first_tenant_ = 0;  // of the next round
  std::uint32_t resting_ = 0;       // sessions at rest
  std::uint32_t next_rester_ = 0;   // the place that is looked at next
  base::TimeNs looked_ns_ = 0;      // until when places were looked at

  SessionEvent kept_event_;
  bool has_kept_event_ = false;
};

}  // namespace simm::session
