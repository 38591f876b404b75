// Session: one client on one data agent, and the only reader of its ring bytes. It takes
// submissions from the lanes, has them checked and decoded, charges the tenant's limits, submits
// operations to the engine, and writes results and completions back.
//
//   active -- drain() --> draining -- no operation left --> ended
//   active or draining -- breach --> poisoned -- no operation left --> ended
//
// Nothing is taken from the rings any more once it is not active. Operations under way complete as
// usual, each within its own deadline, and within kGoneClientNs when the client is gone or was
// poisoned: so the way to `ended` is bounded, and a dead client soon has nothing of the others.
// A submission that was taken and still waits for a limit is completed with an error. Only when
// nothing is left the last state word is published (poisoned or closed) and sleeping clients are
// woken.
//
// Made on the control thread, which allocates everything; then owned by a SessionSet until that
// reports it gone. Thread: the data agent of the set.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/base/intrusive_list.h"
#include "daemon/base/waiter.h"
#include "daemon/engine/operation.h"
#include "daemon/memory/region_table.h"
#include "daemon/session/name_space_table.h"
#include "daemon/session/session_counters.h"
#include "daemon/session/session_limits.h"
#include "daemon/session/submission_decoder.h"
#include "daemon/session/tenant_bandwidth.h"
#include "daemon/session/tenant_share.h"
#include "daemon/session/tenant_traffic.h"
#include "ipc/bell_socket.h"
#include "ipc/daemon_lane.h"
#include "ipc/session_words.h"

namespace simm::session {

struct SessionConfig {
  std::uint64_t id = 0;  // unique in this daemon's life
  base::TenantId tenant;
  OpenNameSpace default_name_space;
  std::uint32_t lane_count = 1;
  std::uint64_t tenant_bytes_max = 0;  // the same for all sessions of a tenant
  std::uint32_t tenant_operations_max = 0;
  TenantBandwidth* bandwidth = nullptr;  // of the tenant, on all agents; null: no limit
  TenantTraffic* traffic = nullptr;      // of the tenant, on this agent; null: not counted
  SessionLimits limits;
};

// What a session uses of its data agent; one per SessionSet.
struct SessionContext {
  engine::OperationSink& engine;
  const base::Clock& clock;
  SessionCounters& counters;
  base::Tracer& tracer;
  std::uint32_t operations_unused;  // of those that the sessions of this set may have
  bool has_rung = false;            // a bell of some session
};

class Session final : public engine::OperationEvents, public base::FdWatch {
public:
  enum class Phase : std::uint8_t { active, draining, poisoned, ended };
  enum class Step : std::uint8_t {
    idle,     // nothing to take
    blocked,  // the next one waits for a limit
    served,   // one submission was taken on
    stopped,  // the session is not active any more
  };

  // `memory` is the daemon's mapping of session_bytes(lane_count), sealed, and outlives the
  // session.
  Session(const SessionConfig& config, std::byte* memory, ipc::BellSocket bell);
  ~Session() override;

  // Called by the set when it takes the session over; both outlive it from then on.
  void begin(SessionContext& context, TenantShare& share) noexcept;

  // Takes on at most one submission, from the lanes in turn.
  Step take_one() noexcept;
  // True when some lane has an entry to take. Part of the announced sleep, so it really looks.
  [[nodiscard]] bool has_submissions() const noexcept;
  // Completes what waited for a limit beyond its deadline, and tells of what still waits before its
  // client has to believe that this daemon is stopped. Returns how many were completed.
  int expire_held(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;

  // The client leaves, or has to: what is in flight has its time if the client `waits` for it.
  void drain(bool waits) noexcept;
  void poison(ipc::PoisonReason reason) noexcept;

  void announce_sleep() noexcept { words_.announce_sleep(); }
  void withdraw_sleep() noexcept { words_.withdraw_sleep(); }

  // True: nothing comes from this session before its client rings, and nothing else needs a turn.
  // Its sleep is announced until end_rest().
  [[nodiscard]] bool try_rest() noexcept;
  void end_rest() noexcept;
  // The client of a session at rest wants it back, or has gone.
  [[nodiscard]] bool is_called() const noexcept {
    return hung_up_ || has_rung_ || words_.sleep_taken();
  }

  // OperationEvents. Results, completion, wake.
  void on_complete(engine::Operation& operation) noexcept override;
  void on_progress(engine::Operation&) noexcept override { words_.tell_progress(); }
  void on_overdue(engine::Operation&) noexcept override { words_.tell_progress(); }
  // FdWatch: the bell. What to look at is decided by the turn that follows.
  void on_fd_ready(std::uint32_t epoll_events) noexcept override;

  [[nodiscard]] memory::RegionTable& regions() noexcept { return regions_; }
  [[nodiscard]] NameSpaceTable& name_spaces() noexcept { return name_spaces_; }
  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] ipc::PoisonReason poison_reason() const noexcept { return reason_; }
  [[nodiscard]] bool has_held() const noexcept { return held_count_ != 0; }
  [[nodiscard]] bool has_entries() const noexcept { return held_count_ + in_flight_ != 0; }
  [[nodiscard]] std::uint32_t lanes() const noexcept { return config_.lane_count; }
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] const SessionConfig& config() const noexcept { return config_; }
  [[nodiscard]] int bell_fd() const noexcept { return bell_.fd(); }
  // When no data agent has the session any more.
  [[nodiscard]] ipc::BellSocket take_bell() noexcept { return std::move(bell_); }
  // The bell's other end is closed, or has sent descriptors: the descriptor must not be watched any
  // more.
  [[nodiscard]] bool hung_up() const noexcept { return hung_up_; }

private:
  // A submission that was taken from the ring and could not be submitted yet. While there is one,
  // its lane is not polled.
  struct Held {
    bool present = false;
    bool waited = false;  // counted as held
    bool waits_for_bandwidth = false;
    ipc::Submission submission;
    base::TimeNs taken_ns = 0;
    base::TimeNs deadline_ns = 0;
    base::TimeNs tell_ns = base::kNoDeadline;  // when its client has to hear that it waits
    engine::Operation* operation = nullptr;    // decoded; waits for bytes
    std::uint64_t slice_bytes = 0;
    std::uint64_t trace_id = 0;                                 // 0: not sampled
    std::array<base::TimeNs, base::kTraceStampsMax> stamps_ns;  // when it is
    base::TraceMark trace_mark;                                 // when it is

    void stamp(base::OperationStamp stamp, base::TimeNs now_ns) noexcept {
      stamps_ns[static_cast<std::size_t>(stamp)] = now_ns;
    }
  };
  struct Lane {
    explicit Lane(ipc::LaneMemory memory) noexcept : end(memory) {}
    ipc::DaemonLane end;
    Held held;
  };

  Step take_from(std::uint32_t lane_index) noexcept;
  Step advance(std::uint32_t lane_index) noexcept;
  void tell_if_due(Held& held, base::TimeNs now_ns) noexcept;
  void begin_trace(Lane& lane) noexcept;
  // One that `says_trace`, or `is_next` to be told of, or begins while simmctl trace looks.
  void sample(Lane& lane, bool says_trace, bool is_next) noexcept;
  void end_trace(const Held& held, Status status) noexcept;
  void end_trace(engine::Operation& operation, std::uint32_t pages_ok) noexcept;
  void tell_trace(const base::TraceRecord& record, const base::TraceMark& mark) noexcept;
  Step decode(Lane& lane) noexcept;
  Step submit(std::uint32_t lane_index) noexcept;
  void give_back(Held& held) noexcept;
  void hold_regions(const engine::Operation& operation) noexcept;
  void name_absent_pages(Lane& lane, const engine::Operation& operation) noexcept;
  void drop_regions(const engine::Operation& operation) noexcept;
  void answer(Lane& lane, Status status) noexcept;
  void end_held(Status status) noexcept;
  void end_soon() noexcept;
  void publish(Lane& lane, const ipc::Completion& completion) noexcept;
  void finish_wake(ipc::Wake due) noexcept;
  [[nodiscard]] bool waits_for_bandwidth(const Held& held) noexcept;
  Step blocked(Held& held, HeldFor what) noexcept;
  void count_moved(const engine::Operation& operation, bool is_clear) noexcept;
  void end_if_empty() noexcept;

  const SessionConfig config_;
  ipc::DaemonSessionWords words_;
  ipc::BellSocket bell_;
  memory::RegionTable regions_;
  NameSpaceTable name_spaces_;
  SubmissionDecoder decoder_;
  std::vector<Lane> lanes_;
  SessionContext* context_ = nullptr;
  TenantShare* share_ = nullptr;
  std::uint32_t next_lane_ = 0;
  std::uint32_t in_flight_ = 0;   // operations submitted to the engine
  std::uint32_t held_count_ = 0;  // lanes with a held submission
  Phase phase_ = Phase::active;
  ipc::PoisonReason reason_ = ipc::PoisonReason::none;
  bool hung_up_ = false;
  bool is_resting_ = false;
  bool has_rung_ = false;  // while it rested
};

}  // namespace simm::session
