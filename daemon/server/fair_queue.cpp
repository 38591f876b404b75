#include "daemon/server/fair_queue.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::server {

FairQueue::FairQueue(std::uint32_t tenants_max, std::uint64_t quantum_bytes)
    : lane_count_(std::max(tenants_max, 1u)),
      quantum_bytes_(static_cast<std::int64_t>(quantum_bytes)),
      lanes_(std::make_unique<Lane[]>(lane_count_)) {
  SIMM_CHECK(quantum_bytes_ > 0);
}

std::uint32_t FairQueue::enter(base::TenantId tenant) noexcept {
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
    lane.credit_bytes = 0;
  }
  if (++lane.jobs == 1) ++occupied_;
  return chosen;
}

void FairQueue::leave(std::uint32_t lane) noexcept {
  SIMM_CHECK(lanes_[lane].jobs > 0);
  if (--lanes_[lane].jobs == 0) --occupied_;
}

void FairQueue::push(Job& job) noexcept {
  Lane& lane = lanes_[job.lane];
  lane.queue.push_back(job);
  if (!lane.linked()) waiting_.push_back(lane);
}

void FairQueue::remove(Job& job) noexcept {
  Lane& lane = lanes_[job.lane];
  lane.queue.remove(job);
  // Credit and debt stay as long as the tenant has jobs: they come back when their moves have
  // ended.
  if (lane.queue.empty()) waiting_.remove(lane);
}

Job* FairQueue::next() noexcept {
  constexpr int kVisitsMax = 64;
  for (int visits = 0; visits < kVisitsMax && !waiting_.empty(); ++visits) {
    Lane& lane = *waiting_.front();
    if (lane.credit_bytes > 0) return lane.queue.front();
    lane.credit_bytes = occupied_ == 1 ? quantum_bytes_ : lane.credit_bytes + quantum_bytes_;
    if (lane.credit_bytes <= 0) waiting_.move_to_back(lane);
  }
  return nullptr;
}

void FairQueue::charge(const Job& job, std::uint64_t bytes) noexcept {
  Lane& lane = lanes_[job.lane];
  lane.credit_bytes -= static_cast<std::int64_t>(bytes);
  lane.charged_bytes += bytes;
  if (lane.credit_bytes <= 0 && lane.linked()) waiting_.move_to_back(lane);
}

std::uint64_t FairQueue::charged_bytes(base::TenantId tenant) const noexcept {
  for (std::uint32_t i = 0; i < lane_count_; ++i) {
    if (lanes_[i].tenant == tenant && lanes_[i].charged_bytes > 0) return lanes_[i].charged_bytes;
  }
  return 0;
}

}  // namespace simm::server
