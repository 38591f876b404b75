// TenantTurns: which request of a link sends next. The tenants of a link have turns, in bytes and
// by weight, and the requests of one tenant follow each other: so a tenant with many requests of
// long pages costs another one's request little more than a tenant with one does.
//
// Deficit round robin that charges after the fact (see session/tenant_share.h). A tenant is known
// while a request of its waits. Weights are those of this daemon's configuration: a peer says none,
// and each link has turns of its own, so no peer's tenant has anything of another peer's link.
// Owned by a link; its user knows which requests wait, each once. Thread: the data agent. No
// allocation after construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "daemon/base/ids.h"
#include "daemon/base/intrusive_list.h"
#include "daemon/base/tenant_weights.h"
#include "simm/check.h"

namespace simm::transport {

// What a step costs at least that has sent anything, in bytes: roughly what the same time would
// send.
inline constexpr std::uint64_t kStepCostBytes = 4096;

class TenantTurns {
public:
  // `quantum_bytes`: of a tenant with the weight 1, in one round. `weights` outlive this.
  TenantTurns(std::uint32_t slots, std::uint32_t quantum_bytes, const base::TenantWeights& weights)
      : quantum_bytes_(quantum_bytes),
        weights_(weights),
        // The one whose turn it is may wait for nothing.
        lines_(std::make_unique<Line[]>(slots + 1)),
        behind_(std::make_unique<std::uint32_t[]>(slots)) {
    for (std::uint32_t i = 0; i <= slots; ++i) free_.push_back(lines_[i]);
  }
  TenantTurns(const TenantTurns&) = delete;
  TenantTurns& operator=(const TenantTurns&) = delete;

  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  // Behind the tenant's others.
  void push(std::uint32_t slot, base::TenantId tenant) noexcept {
    Line& line = line_of(tenant);
    (line.count == 0 ? line.first : behind_[line.last]) = slot;
    line.last = slot;
    ++line.count;
    ++count_;
  }
  // Whose turn it is. end_turn() follows, when it waits again if it does.
  [[nodiscard]] std::uint32_t pop() noexcept {
    SIMM_CHECK(count_ > 0);
    Line* line = waiting_.front();
    while (line->credit_bytes <= 0) {
      line->credit_bytes += line->quantum_bytes;
      waiting_.move_to_back(*line);
      line = waiting_.front();
    }
    const std::uint32_t slot = line->first;
    line->first = behind_[slot];
    --line->count;
    --count_;
    return slot;
  }
  // It has sent so much; `is_stuck`: it can not go on, and others of its link may be able to.
  void end_turn(std::uint64_t bytes, bool is_stuck = false) noexcept {
    Line& line = *waiting_.front();
    if (bytes > 0) line.credit_bytes -= static_cast<std::int64_t>(std::max(bytes, kStepCostBytes));
    if (line.count == 0) {
      waiting_.remove(line);
      free_.push_front(line);
    } else if (is_stuck) {
      waiting_.move_to_back(line);
    }
  }
  void clear() noexcept {
    while (Line* line = waiting_.pop_front()) {
      line->count = 0;
      free_.push_front(*line);
    }
    count_ = 0;
  }

private:
  struct Line : base::ListLink<Line> {
    base::TenantId tenant;
    std::int64_t quantum_bytes = 0;
    std::int64_t credit_bytes = 0;
    std::uint32_t count = 0;  // of slots that wait
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  // Few tenants wait at a link at one time, and most often the first one is meant.
  [[nodiscard]] Line& line_of(base::TenantId tenant) noexcept {
    for (Line* line = waiting_.front(); line != nullptr; line = waiting_.next(*line)) {
      if (line->tenant == tenant) return *line;
    }
    Line* const line = free_.pop_front();
    SIMM_CHECK(line != nullptr);
    line->tenant = tenant;
    line->quantum_bytes = std::int64_t{quantum_bytes_} * weights_.of(tenant);
    line->credit_bytes = line->quantum_bytes;
    waiting_.push_back(*line);
    return *line;
  }

  const std::uint32_t quantum_bytes_;
  const base::TenantWeights& weights_;
  const std::unique_ptr<Line[]> lines_;
  const std::unique_ptr<std::uint32_t[]> behind_;  // the slot that follows, by slot
  base::IntrusiveList<Line, Line> waiting_;        // who is in front has the turn
  base::IntrusiveList<Line, Line> free_;
  std::uint32_t count_ = 0;
};

}  // namespace simm::transport
