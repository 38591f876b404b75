// Engine: carries batches. It takes validated operations from sessions, groups their pages by owner
// under the current placement, and posts one request per owner and message to a Requester. It gives
// each operation back exactly once, when every request of it has been answered or fenced. From then
// on nothing, near or far, touches the operation's slices.
//
// Time of an operation (P5, bounded waiting):
//
//   submit ............. cancel_ns ............ deadline .............. deadline + fence_grace
//   posts, retries,    | cancels, waits for   | abandons what is open, | complete: a transport
//   reroutes           | the acknowledgements | at half of the grace   | fences within the grace
//                      |                      | resets its paths       |
//
// All clients share a path: to reset it costs them all, to abandon a request costs nobody. A client
// chooses its own deadline, but not the time that a peer has to answer a cancel: half of the grace
// at least.
//
// `deadline` is the header's. Where that has a patience_ns it is the latest end, and the batch is
// given up earlier: patience_ns after it was submitted, or after the last sign of progress. A few
// looks in that time find such signs: bytes moved on the ways to its owners, or an answer of it
// came. So a slow line is waited for, and one that stands is not (engine_course.cpp).
//
// Giving up is not completing: pages without an answer get `timeout` only when their request has
// been answered or fenced. Before cancel_ns
//  - pages that met wrong_epoch, which did nothing, are routed again as soon as the placement has
//    changed, and asked again after a pause while it has not (the owner is behind);
//  - a get or exists that was fenced for another one's sake (collateral) is posted again once. A
//    put or remove is not: what the first one did is unknown, and it might still do it after the
//    second one, and after whatever the client did then. It is answered `unreachable`: visible
//    whole or not at all.
// Each page has its own answer. Where an owner can not be reached, gets and exists miss and the
// others are `unreachable`; pages of other owners are not affected.
//
// A get that several processes of the node share is not sent to owners on other daemons but to a
// shared-read shard of this one, which fetches for all of them. Its caller says that it is shared,
// or the shape of its keys does. A shard that has no room declines (Status::no_space), and the page
// goes to its owner.
//
// Objects of some namespaces are kept twice. Their writes are two operations, one of which is the
// engine's own, and complete when both are over. Their reads ask the other copy where
// replica_rules.h says so.
//
// An agent part: do_work() runs the requesters' turns, timers, waiting posts and completions, and
// is the only place from which on_complete() is called. No allocation after construction.
// Thread: its data agent, for every call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/agent.h"
#include "daemon/base/intrusive_list.h"
#include "daemon/base/timer_wheel.h"
#include "daemon/engine/engine_config.h"
#include "daemon/engine/engine_counters.h"
#include "daemon/engine/operation.h"
#include "daemon/engine/operation_pool.h"
#include "daemon/engine/page_hasher.h"
#include "daemon/engine/page_router.h"
#include "daemon/engine/pending_requests.h"
#include "daemon/engine/placement.h"
#include "daemon/engine/replica_rules.h"
#include "daemon/engine/request_pool.h"
#include "daemon/engine/requester_table.h"
#include "daemon/engine/route_shares.h"
#include "daemon/engine/shared_read_routes.h"
#include "daemon/engine/write_marks.h"

namespace simm::engine {

class Engine final : public OperationSink, public transport::RequesterEvents, public base::Agent {
public:
  // All references outlive the engine. The requesters of the table report to this engine.
  Engine(const EngineConfig& config, const base::Clock& clock, PageHasher hasher,
         const Placement& placement, RequesterTable& requesters, EngineCounters counters = {});
  ~Engine() override;

  // Batches are routed by this placement from now on; it must outlive its use here.
  void use_placement(const Placement& placement) noexcept {
    placement_ = &placement;
    shared_read_routes_.use_placement(placement);
    hot_read_routes_.use_placement(placement);
  }
  // From now on shared reads of other daemons' objects go to the shared-read shards of this daemon,
  // and writes leave their marks. At set-up; `marks` outlives the engine.
  void use_shared_reads(std::uint16_t shards, WriteMarks& marks) noexcept {
    shared_read_routes_.use_shards(shards);
    hot_read_routes_.use_shards(shards);
    marks_ = &marks;
  }

  // From now on objects of these namespaces are kept twice; at set-up, with EngineConfig::replicas.
  void use_replicas(const base::ReplicatedNamespaces& name_spaces) { replicas_.use(name_spaces); }

  // Where requests for that slot go now.
  [[nodiscard]] transport::Route route_of(base::Slot slot) const noexcept {
    return placement_->route(slot);
  }

  // OperationSink.
  Operation* allocate() noexcept override;
  void release(Operation& operation) noexcept override;
  void submit(Operation& operation) noexcept override;
  void end_soon(const OperationEvents& owner, base::TimeNs deadline_ns) noexcept override;

  // An operation of those that are kept for fetches, marked as one; nullptr: all are lent.
  Operation* allocate_fetch() noexcept;

  // Agent.
  int do_work() noexcept override;
  base::TimeNs next_deadline_ns() const noexcept override;
  const char* name() const noexcept override { return "engine"; }

  // RequesterEvents.
  void on_reply(transport::RequestToken token,
                std::span<const transport::PageReply> pages) noexcept override;
  void on_fenced(transport::RequestToken token, transport::FenceCause cause) noexcept override;

  // Operations that were submitted and are not complete.
  std::uint32_t in_flight() const noexcept { return in_flight_; }
  const EngineCounters& counters() const noexcept { return counters_; }

private:
  struct WaitingTag {};
  enum class Phase : std::uint8_t { running, cancelling, abandoning, resetting, overdue, finished };
  // What the engine knows of an operation; parallel to the pool.
  struct Progress : base::Timer, base::ListLink<WaitingTag> {
    Operation* operation = nullptr;
    bool of_both = false;  // what it asks for is kept twice
    // Of the maps by which it was answered.
    base::Epoch oldest = 0;  // 0: it was not
    base::Epoch newest = 0;
    Phase phase = Phase::finished;
    bool accepted = false;  // some message of it was
    bool timed_out = false;
    base::TimeNs submitted_ns = 0;
    base::TimeNs deadline_ns = 0;  // as far as is known; the header's is the latest
    std::uint64_t answered = 0;    // pages
    std::uint64_t moved = 0;       // by the last look
    bool has_looked = false;
    bool timed = false;         // its stages go into the histograms
    base::TimeNs stage_ns = 0;  // when its last stage ended; 0: neither timed nor traced
    base::IntrusiveList<SubRequest, OpenTag> open;
  };
  using Stage = SubRequest::Stage;
  using PageRequest = transport::PageRequest;

  Progress& progress_of(const SubRequest& request) noexcept;
  const Placement& routes_of(const SubRequest& request) const noexcept {
    if (request.to_shared_reads) {
      return request.of_hot_reads ? hot_read_routes_ : shared_read_routes_;
    }
    return *placement_;
  }
  base::TimeNs cancel_time(base::TimeNs now_ns, base::TimeNs deadline_ns) const noexcept;

  // Both copies.
  void write_replicas(Operation& operation) noexcept;
  [[nodiscard]] Operation& client_operation(Progress& progress) noexcept {
    return progress.operation->is_replica ? *progress.operation->other : *progress.operation;
  }
  [[nodiscard]] bool is_lone(const PageRequest& page) const noexcept;
  [[nodiscard]] bool name_replicas(SubRequest& request) noexcept;
  [[nodiscard]] bool may_ask_other(const SubRequest& request, Status status) noexcept;
  void ask_other(SubRequest& request) noexcept;
  [[nodiscard]] bool send_tail(SubRequest& request) noexcept;
  void ask_other_later(SubRequest& request, std::uint32_t first, std::uint32_t end) noexcept;
  void join_copies(Progress& progress) noexcept;
  [[nodiscard]] Progress& progress_of(const Operation& operation) noexcept {
    return progress_[operations_.index_of(operation)];
  }

  // Posting.
  void start(Progress& progress, SubRequest& entry) noexcept;
  void open_request(Progress& progress, SubRequest& request, std::uint32_t first,
                    std::uint32_t end) noexcept;
  [[nodiscard]] bool hash_some(SubRequest& request) noexcept;
  SubRequest* acquire_more() noexcept;
  void dispatch(SubRequest& request) noexcept;
  SubRequest* split_first_run(SubRequest& request) noexcept;
  void post(SubRequest& request) noexcept;
  bool is_timed() noexcept;
  void end_stage(Progress& progress, base::Histogram& stage_ns,
                 base::OperationStamp stamp) noexcept;
  void wait(SubRequest& request) noexcept;
  void pause(SubRequest& request) noexcept;
  int resume_paused() noexcept;
  int start_waiting() noexcept;
  int post_pending() noexcept;

  // Answers.
  void take_reply(Operation& operation, const transport::PageRequest& page,
                  const transport::PageReply& reply) noexcept;
  bool may_ask_again(const SubRequest& request) noexcept;
  bool stays_open(SubRequest& request, Status status) noexcept;
  bool may_retry(const SubRequest& request, transport::FenceCause cause) noexcept;
  void answer(SubRequest& request, std::uint32_t first, std::uint32_t end, Status status) noexcept;
  void end_message(SubRequest& request, Status status) noexcept;
  void go_on(SubRequest& request) noexcept;
  void end_post(SubRequest& request) noexcept;
  void close_request(SubRequest& request) noexcept;

  // Patience.
  void begin_patience(Progress& progress) noexcept;
  base::TimeNs next_look_ns(const Progress& progress, base::TimeNs now_ns) const noexcept;
  std::uint64_t moved_of(Progress& progress) noexcept;
  bool goes_on(Progress& progress) noexcept;

  // Deadlines.
  void on_timer(Progress& progress) noexcept;
  void cancel_open(Progress& progress) noexcept;
  void cancel_request(SubRequest& request) noexcept;
  void abandon_open(Progress& progress) noexcept;
  void reset_open(Progress& progress) noexcept;
  void tell_overdue(Progress& progress) noexcept;

  void finish(Progress& progress) noexcept;
  int complete_finished() noexcept;
  void leave_marks(const Operation& operation) noexcept;

  const EngineConfig config_;
  const base::Clock& clock_;
  const PageHasher hasher_;
  const Placement* placement_;
  SharedReadRoutes shared_read_routes_;
  HotReads hot_reads_;
  SharedReadRoutes hot_read_routes_;  // of these
  WriteMarks* marks_ = nullptr;
  ReplicaRules replicas_;
  RequesterTable& requesters_;
  EngineCounters counters_;

  OperationPool operations_;
  RequestPool requests_;
  PageRouter router_;
  base::TimerWheel timers_;
  std::unique_ptr<Progress[]> progress_;
  base::IntrusiveList<Progress, WaitingTag> waiting_;   // for an entry of the request pool
  RouteShares shares_;                                  // of the credits
  PendingRequests pending_;                             // not posted yet, or not again
  base::IntrusiveList<SubRequest, PendingTag> paused_;  // wait for a map, the oldest map first
  base::IntrusiveList<Progress, WaitingTag> finished_;
  bool has_hashed_rest_ = false;  // in this turn, of a batch of which some was hashed before
  std::uint32_t in_flight_ = 0;
  std::uint32_t fetches_lent_ = 0;
  std::uint32_t replicas_lent_ = 0;
  std::uint32_t batches_until_timed_;
};

}  // namespace simm::engine
