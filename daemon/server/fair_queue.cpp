#include "daemon/server/fair_queue.h"

#include <algorithm>
#include <bit>

#include "simm/check.h"

namespace simm::server {

FairQueue::FairQueue(const ServerConfig& config)
    : config_(config),
      lane_count_(std::max(config.tenants_max, 1u)),
      quantum_bytes_(static_cast<std::int64_t>(config.quantum_bytes)),
      lanes_(std::make_unique<Lane[]>(lane_count_)),
      requesters_(std::make_unique<Queuer[]>(config.requests_max)),
      turns_(std::make_unique<RequesterTurns[]>(config.requests_max)),
      bucket_mask_(std::bit_ceil(std::max(config.requests_max, 1u)) - 1),
      requester_buckets_(std::make_unique<Bucket<Queuer>[]>(bucket_mask_ + 1)),
      turn_buckets_(std::make_unique<Bucket<RequesterTurns>[]>(bucket_mask_ + 1)) {
  SIMM_CHECK(quantum_bytes_ > 0);
  for (std::uint32_t i = 0; i < config.requests_max; ++i) {
    free_requesters_.push_back(requesters_[i]);
    free_turns_.push_back(turns_[i]);
  }
}

// ---- who is there ----

std::int64_t FairQueue::quantum_of(base::TenantId tenant) const noexcept {
  return quantum_bytes_ * config_.weights.of(tenant);
}

std::uint32_t FairQueue::enter_lane(base::TenantId tenant) noexcept {
  std::uint32_t chosen = occupied_ == 0 ? 0 : lane_count_ - 1;
  for (std::uint32_t i = occupied_ == 0 ? 0 : lane_count_; i-- > 0;) {
    if (lanes_[i].jobs > 0 && lanes_[i].tenant == tenant) {
      chosen = i;
      break;
    }
    if (lanes_[i].jobs == 0) chosen = i;
  }
  Lane& lane = lanes_[chosen];
  if (lane.jobs == 0) {
    // An old debt is nobody's; what this tenant was charged before stays known.
    lane.charged_bytes = lane.tenant == tenant ? lane.charged_bytes : 0;
    lane.tenant = tenant;
    lane.quantum_bytes = quantum_of(tenant);
    lane.credit_bytes = 0;
  }
  if (++lane.jobs == 1) ++occupied_;
  return chosen;
}

std::uint32_t FairQueue::bucket_of(std::uint32_t lane, std::uint64_t requester) const noexcept {
  constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
  const std::uint64_t mixed = (requester ^ (std::uint64_t{lane} << 32)) * kSpread;
  return static_cast<std::uint32_t>(mixed >> 32) & bucket_mask_;
}

FairQueue::Queuer& FairQueue::enter_requester(std::uint64_t id) noexcept {
  Bucket<Queuer>& bucket = requester_buckets_[bucket_of(0, id)];
  Queuer* requester = bucket.front();
  while (requester != nullptr && requester->id != id) requester = bucket.next(*requester);
  if (requester == nullptr) {
    requester = free_requesters_.pop_front();
    requester->id = id;
    bucket.push_front(*requester);
  }
  ++requester->jobs;
  return *requester;
}

FairQueue::RequesterTurns& FairQueue::enter_turns(std::uint32_t lane, Queuer& requester) noexcept {
  Bucket<RequesterTurns>& bucket = turn_buckets_[bucket_of(lane, requester.id)];
  RequesterTurns* turns = bucket.front();
  while (turns != nullptr && (turns->lane != lane || turns->requester != &requester)) {
    turns = bucket.next(*turns);
  }
  if (turns == nullptr) {
    turns = free_turns_.pop_front();
    turns->lane = lane;
    turns->requester = &requester;
    turns->credit_bytes = 0;
    bucket.push_front(*turns);
    ++lanes_[lane].requesters;
  }
  ++turns->jobs;
  return *turns;
}

void FairQueue::enter(Job& job, base::TenantId tenant) noexcept {
  std::uint64_t bytes = 0;
  for (const transport::PageRequest& page : job.incoming->pages) {
    bytes += std::min(page.slice.length, config_.small_bytes_max + 1);
  }
  job.is_small = bytes <= config_.small_bytes_max;
  const RequesterTurns& turns =
      enter_turns(enter_lane(tenant), enter_requester(job.incoming->requester_id));
  job.turns = static_cast<std::uint32_t>(&turns - turns_.get());
}

void FairQueue::leave(Job& job) noexcept {
  RequesterTurns& turns = turns_of(job);
  Queuer& requester = *turns.requester;
  Lane& lane = lanes_[turns.lane];
  SIMM_CHECK(lane.jobs > 0 && turns.jobs > 0 && requester.jobs > 0);
  if (--lane.jobs == 0) --occupied_;
  if (--turns.jobs == 0) {
    --lane.requesters;
    turns.base::ListLink<ExemptTag>::unlink();
    turns.base::ListLink<BucketTag>::unlink();
    free_turns_.push_front(turns);
  }
  if (--requester.jobs > 0) return;
  SIMM_CHECK(requester.moves == 0);
  requester.unlink();
  free_requesters_.push_front(requester);
}

// ---- who waits ----

void FairQueue::make_ready(RequesterTurns& turns) noexcept {
  Lane& lane = lanes_[turns.lane];
  lane.ready.push_back(turns);
  if (!lane.linked()) waiting_.push_back(lane);
}

void FairQueue::take_off(RequesterTurns& turns) noexcept {
  Lane& lane = lanes_[turns.lane];
  turns.base::ListLink<TurnTag>::unlink();
  if (turns.is_parked) {
    turns.is_parked = false;
  } else if (lane.ready.empty()) {
    waiting_.remove(lane);
  }
}

bool FairQueue::wake(RequesterTurns& turns) noexcept {
  if (!turns.is_parked || choose(turns) == nullptr) return false;
  take_off(turns);
  make_ready(turns);
  return true;
}

void FairQueue::note_exempt(RequesterTurns& turns) noexcept {
  if (turns.base::ListLink<ExemptTag>::linked() || choose_exempt(turns) == nullptr) return;
  exempt_.push_back(turns);
}

void FairQueue::push(Job& job) noexcept {
  RequesterTurns& turns = turns_of(job);
  (job.is_small ? turns.small : turns.large).push_back(job);
  if (turns.base::ListLink<TurnTag>::linked()) {
    (void)wake(turns);
  } else {
    make_ready(turns);
  }
  note_exempt(turns);
}

void FairQueue::remove(Job& job) noexcept {
  RequesterTurns& turns = turns_of(job);
  (job.is_small ? turns.small : turns.large).remove(job);
  // Credit and debt stay as long as there are jobs: they come back when their moves have ended.
  if (!turns.small.empty() || !turns.large.empty()) return;
  take_off(turns);
  turns.base::ListLink<ExemptTag>::unlink();
}

// ---- the window ----

bool FairQueue::may_pass(const RequesterTurns& turns) const noexcept {
  return turns.requester->small_moves < std::min(config_.moves_max / 16, kSmallMovesMax);
}

// Of a small window nothing is little.
bool FairQueue::has_little(const RequesterTurns& turns) const noexcept {
  return turns.requester->moves == 0 || (turns.moves < config_.moves_max / kPartsOfWindow &&
                                         turns.move_bytes < config_.bytes_max / kPartsOfWindow);
}

Job* FairQueue::choose(RequesterTurns& turns) noexcept {
  const Queuer& requester = *turns.requester;
  const bool has_room = has_little(turns) || (requester.moves < config_.moves_max &&
                                              requester.move_bytes < config_.bytes_max);
  const bool takes_large = has_room && !turns.large.empty();
  const bool takes_small = !turns.small.empty() && (has_room || may_pass(turns));
  if (takes_small && (turns.small_is_next || !takes_large)) return turns.small.front();
  return takes_large ? turns.large.front() : nullptr;
}

Job* FairQueue::choose_exempt(RequesterTurns& turns) noexcept {
  const bool may_begin = has_little(turns);
  if (!turns.small.empty() && (may_begin || may_pass(turns))) return turns.small.front();
  return may_begin ? turns.large.front() : nullptr;
}

void FairQueue::begin_turn(base::TimeNs now_ns) noexcept {
  const std::uint64_t age = now_ns / kAgeNs;
  if (age <= age_) return;
  // What was counted two ages ago, and longer, is not fresh any more.
  fresh_moves_[age % 2] = 0;
  fresh_bytes_[age % 2] = 0;
  if (age > age_ + 1) {
    fresh_moves_ = {};
    fresh_bytes_ = {};
  }
  age_ = age;
}

std::uint64_t FairQueue::begin_move(const Job& job, std::uint64_t bytes) noexcept {
  RequesterTurns& turns = turns_of(job);
  Queuer& requester = *turns.requester;
  ++turns.moves;
  turns.move_bytes += bytes;
  ++requester.moves;
  if (job.is_small) ++requester.small_moves;
  requester.move_bytes += bytes;
  ++moves_;
  ++fresh_moves_[age_ % 2];
  fresh_bytes_[age_ % 2] += bytes;
  return age_;
}

void FairQueue::end_move(const Job& job, std::uint64_t bytes, std::uint64_t age) noexcept {
  RequesterTurns& turns = turns_of(job);
  Queuer& requester = *turns.requester;
  SIMM_CHECK(turns.moves > 0 && turns.move_bytes >= bytes);
  --turns.moves;
  turns.move_bytes -= bytes;
  --requester.moves;
  if (job.is_small) --requester.small_moves;
  requester.move_bytes -= bytes;
  --moves_;
  if (age + 1 >= age_) {
    --fresh_moves_[age % 2];
    fresh_bytes_[age % 2] -= bytes;
  }
  (void)wake(turns);
  while (!requester.parked.empty() && wake(*requester.parked.front())) {
  }
  note_exempt(turns);
}

// ---- turns ----

Job* FairQueue::next() noexcept {
  if (!is_open()) return next_exempt();
  for (int visits = 0; visits < kVisitsMax && !waiting_.empty(); ++visits) {
    Lane& lane = *waiting_.front();
    if (lane.credit_bytes <= 0) {
      lane.credit_bytes =
          occupied_ == 1 ? lane.quantum_bytes : lane.credit_bytes + lane.quantum_bytes;
      if (lane.credit_bytes <= 0) waiting_.move_to_back(lane);
      continue;
    }
    RequesterTurns& turns = *lane.ready.front();
    if (turns.credit_bytes <= 0) {
      turns.credit_bytes =
          lane.requesters == 1 ? quantum_bytes_ : turns.credit_bytes + quantum_bytes_;
      if (turns.credit_bytes <= 0) lane.ready.move_to_back(turns);
      continue;
    }
    if (Job* const job = choose(turns)) return job;
    take_off(turns);
    turns.requester->parked.push_back(turns);
    turns.is_parked = true;
  }
  return nullptr;
}

Job* FairQueue::next_exempt() noexcept {
  for (int visits = 0; visits < kVisitsMax && !exempt_.empty(); ++visits) {
    RequesterTurns& turns = *exempt_.front();
    Job* const job = choose_exempt(turns);
    if (job == nullptr) {
      exempt_.remove(turns);  // until a move of it ends
    } else if (has_credit(turns)) {
      return job;
    } else {
      exempt_.move_to_back(turns);
    }
  }
  return nullptr;
}

// At the front of those who are exempt: a visit adds a quantum here, too.
bool FairQueue::has_credit(RequesterTurns& turns) noexcept {
  Lane& lane = lanes_[turns.lane];
  if (lane.credit_bytes <= 0) {
    lane.credit_bytes =
        occupied_ == 1 ? lane.quantum_bytes : lane.credit_bytes + lane.quantum_bytes;
  }
  if (turns.credit_bytes <= 0) {
    turns.credit_bytes =
        lane.requesters == 1 ? quantum_bytes_ : turns.credit_bytes + quantum_bytes_;
  }
  return lane.credit_bytes > 0 && turns.credit_bytes > 0;
}

void FairQueue::charge(const Job& job, std::uint64_t bytes) noexcept {
  RequesterTurns& turns = turns_of(job);
  Lane& lane = lanes_[turns.lane];
  turns.small_is_next = !job.is_small;
  turns.credit_bytes -= static_cast<std::int64_t>(bytes);
  lane.credit_bytes -= static_cast<std::int64_t>(bytes);
  lane.charged_bytes += bytes;
  const bool is_in_debt = turns.credit_bytes <= 0 || lane.credit_bytes <= 0;
  if (is_in_debt && turns.base::ListLink<ExemptTag>::linked()) exempt_.move_to_back(turns);
  if (turns.credit_bytes <= 0 && !turns.is_parked && turns.base::ListLink<TurnTag>::linked()) {
    lane.ready.move_to_back(turns);
  }
  if (lane.credit_bytes <= 0 && lane.linked()) waiting_.move_to_back(lane);
}

std::uint64_t FairQueue::charged_bytes(base::TenantId tenant) const noexcept {
  for (std::uint32_t i = 0; i < lane_count_; ++i) {
    if (lanes_[i].tenant == tenant && lanes_[i].charged_bytes > 0) return lanes_[i].charged_bytes;
  }
  return 0;
}

}  // namespace simm::server
