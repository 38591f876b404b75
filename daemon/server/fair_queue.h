// FairQueue: whose turn it is to move bytes, and how many moves may be under way.
//
// Turns: deficit round robin (Shreedhar and Varghese, 1996), in bytes, over tenants by their
// weights, and inside a tenant over its requesters: the daemons that ask. What a tenant does not
// use the others have. Requests of one tenant and requester are served
// in the order in which they came, large ones and small ones by turns. A page may be longer than
// the quantum: its tenant and requester then run up a debt and miss turns until it is paid. One
// that is alone has none.
//
// Window: each requester has one, moves_max and bytes_max, so what it has under way takes no room
// from others for long; n requesters have n windows under way at most, and each tenant's little and
// kSmallMovesMax short pages. Moves that began in this kAgeNs or the last one share one more
// window of the same size: while they fill it, as they do when this server is what is slow, turns
// decide who goes on. A move that takes longer waits for its requester or its network, and is only
// its requester's. A requester that has nothing under way may begin a move always, and so may a
// tenant of it that has little, a kPartsOfWindow-th of a window: so nobody waits for a window that
// others have filled. And a small request passes large ones that have no room.
//
// Thread: the server's data agent. All calls take constant time but enter(), which looks at the
// tenants.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/base/ids.h"
#include "daemon/base/intrusive_list.h"
#include "daemon/server/job.h"
#include "daemon/server/server_config.h"

namespace simm::server {

class FairQueue {
public:
  explicit FairQueue(const ServerConfig& config);

  // One more job: it gets the turns of its tenant and requester. Tenants beyond tenants_max share
  // the last lane.
  void enter(Job& job, base::TenantId tenant) noexcept;
  void leave(Job& job) noexcept;

  // The job is on no list, and can use a turn now.
  void push(Job& job) noexcept;
  void remove(Job& job) noexcept;

  // Whose turn it is; null when nobody has room, or everybody is in debt still (ask again).
  [[nodiscard]] Job* next() noexcept;
  // What the job that next() named has used.
  void charge(const Job& job, std::uint64_t bytes) noexcept;

  // The turn's time: moves that began long ago make room.
  void begin_turn(base::TimeNs now_ns) noexcept;
  // A move of the job is under way. What end_move() wants to know when it has ended.
  [[nodiscard]] std::uint64_t begin_move(const Job& job, std::uint64_t bytes) noexcept;
  void end_move(const Job& job, std::uint64_t bytes, std::uint64_t age) noexcept;
  [[nodiscard]] std::uint32_t moves() const noexcept { return moves_; }

  // Nobody is to be asked for a turn: nobody waits, or those who do have no room.
  [[nodiscard]] bool empty() const noexcept {
    return is_open() ? waiting_.empty() : exempt_.empty();
  }
  // When there is room though no move has ended.
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept {
    return is_open() || waiting_.empty() ? base::kNoDeadline : (age_ + 1) * kAgeNs;
  }
  // Bytes charged to a tenant's lane, for tests of fairness.
  [[nodiscard]] std::uint64_t charged_bytes(base::TenantId tenant) const noexcept;

private:
  static constexpr base::TimeNs kAgeNs = 10 * base::kNsPerMs;
  static constexpr std::uint32_t kSmallMovesMax = 16;  // beyond the window, if that is large
  static constexpr std::uint32_t kPartsOfWindow = 16;
  static constexpr int kVisitsMax = 64;  // of those in debt, at one time

  struct LaneTag {};
  struct TurnTag {};
  struct BucketTag {};
  struct ExemptTag {};
  struct RequesterTurns;
  using TurnList = base::IntrusiveList<RequesterTurns, TurnTag>;

  // In a bucket while it has jobs, or on the list of the free.
  struct Queuer : base::ListLink<BucketTag> {
    std::uint64_t id = 0;
    std::uint32_t jobs = 0;  // entered
    std::uint32_t moves = 0;
    std::uint32_t small_moves = 0;  // of those
    std::uint64_t move_bytes = 0;
    TurnList parked;  // its turns in any lane that wait, but have no room
  };
  // Of one requester in one lane. On its lane's list while a job of it waits and it has room, or
  // parked.
  struct RequesterTurns : base::ListLink<TurnTag>,
                          base::ListLink<BucketTag>,
                          base::ListLink<ExemptTag> {
    std::uint32_t lane = 0;
    Queuer* requester = nullptr;
    std::uint32_t jobs = 0;  // entered
    std::uint32_t moves = 0;
    std::uint64_t move_bytes = 0;
    std::int64_t credit_bytes = 0;
    bool is_parked = false;
    bool small_is_next = true;
    JobList small;
    JobList large;
  };
  template <typename Entry>
  using Bucket = base::IntrusiveList<Entry, BucketTag>;

  struct Lane : base::ListLink<LaneTag> {
    base::TenantId tenant;
    std::uint32_t jobs = 0;          // entered
    std::uint32_t requesters = 0;    // with a job
    std::int64_t quantum_bytes = 0;  // by the weight of the tenant
    std::int64_t credit_bytes = 0;
    std::uint64_t charged_bytes = 0;
    TurnList ready;
  };

  [[nodiscard]] std::int64_t quantum_of(base::TenantId tenant) const noexcept;
  [[nodiscard]] std::uint32_t enter_lane(base::TenantId tenant) noexcept;
  [[nodiscard]] Queuer& enter_requester(std::uint64_t id) noexcept;
  [[nodiscard]] RequesterTurns& enter_turns(std::uint32_t lane, Queuer& requester) noexcept;
  [[nodiscard]] std::uint32_t bucket_of(std::uint32_t lane, std::uint64_t requester) const noexcept;
  RequesterTurns& turns_of(const Job& job) noexcept { return turns_[job.turns]; }
  void make_ready(RequesterTurns& turns) noexcept;
  void take_off(RequesterTurns& turns) noexcept;
  // Lets a parked one have turns again if it has room (true).
  bool wake(RequesterTurns& turns) noexcept;
  void note_exempt(RequesterTurns& turns) noexcept;

  [[nodiscard]] bool is_open() const noexcept {
    return fresh_moves_[0] + fresh_moves_[1] < config_.moves_max &&
           fresh_bytes_[0] + fresh_bytes_[1] < config_.bytes_max;
  }
  [[nodiscard]] bool may_pass(const RequesterTurns& turns) const noexcept;
  [[nodiscard]] bool has_little(const RequesterTurns& turns) const noexcept;
  // The job that may begin a move: when the shared window is open, and when it is not. Null: none.
  [[nodiscard]] Job* choose(RequesterTurns& turns) noexcept;
  [[nodiscard]] Job* choose_exempt(RequesterTurns& turns) noexcept;
  [[nodiscard]] Job* next_exempt() noexcept;
  [[nodiscard]] bool has_credit(RequesterTurns& turns) noexcept;

  const ServerConfig config_;
  const std::uint32_t lane_count_;
  const std::int64_t quantum_bytes_;
  const std::unique_ptr<Lane[]> lanes_;
  // As many of each as jobs, and more buckets than that.
  const std::unique_ptr<Queuer[]> requesters_;
  const std::unique_ptr<RequesterTurns[]> turns_;
  const std::uint32_t bucket_mask_;
  const std::unique_ptr<Bucket<Queuer>[]> requester_buckets_;
  const std::unique_ptr<Bucket<RequesterTurns>[]> turn_buckets_;
  Bucket<Queuer> free_requesters_;
  Bucket<RequesterTurns> free_turns_;
  std::uint32_t occupied_ = 0;                  // lanes with a job, queued or not
  base::IntrusiveList<Lane, LaneTag> waiting_;  // lanes with a requester that is ready
  base::IntrusiveList<RequesterTurns, ExemptTag>
      exempt_;  // who may go on when the window is closed
  std::uint32_t moves_ = 0;
  // Moves by age: the time in kAgeNs when they began. Of the last two, at age % 2.
  std::uint64_t age_ = 0;
  std::array<std::uint32_t, 2> fresh_moves_{};
  std::array<std::uint64_t, 2> fresh_bytes_{};
};

}  // namespace simm::server
