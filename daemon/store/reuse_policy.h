// ReusePolicy: what is worth least by its ReuseModel goes first. An account has a queue for each
// class of the model, in the order of last use (of one time: of depth), and only the oldest of each
// class are compared. A group that was evicted and comes back counts on from where it was:
// otherwise a cache that is small for its traffic never finds out what is used again. Thread: the
// data agent of the store.
#pragma once

#include <array>
#include <vector>

#include "daemon/store/depth_queue.h"
#include "daemon/store/eviction_policy.h"
#include "daemon/store/ghost_table.h"
#include "daemon/store/reuse_model.h"

namespace simm::store {

class ReusePolicy final : public EvictionPolicy {
public:
  ReusePolicy(Table<Group> groups, std::uint32_t accounts, GhostTable ghosts);

  void note_use(std::uint32_t group, base::TimeNs now_ns) noexcept override;
  void enqueue(std::uint32_t group) noexcept override;
  void dequeue(std::uint32_t group) noexcept override;
  void note_eviction(std::uint32_t group) noexcept override;
  [[nodiscard]] Candidate candidate(std::uint32_t account,
                                    base::TimeNs now_ns) const noexcept override;
  [[nodiscard]] bool may_replace(std::uint32_t group, std::uint32_t candidate, std::uint32_t times,
                                 base::TimeNs now_ns) const noexcept override;
  [[nodiscard]] const char* audit(std::uint32_t& queued) const noexcept override;

private:
  [[nodiscard]] float worth_of(const Group& g, base::TimeNs now_ns) const noexcept {
    return model_.worth(ReuseModel::class_of(g.uses), now_ns > g.used_ns ? now_ns - g.used_ns : 0);
  }
  using Queues = std::array<DepthQueue, ReuseModel::kClasses>;

  DepthQueue& queue_of(const Group& g) noexcept {
    return queues_[g.account][ReuseModel::class_of(g.uses)];
  }

  std::vector<Queues> queues_;  // by account; never grows
  ReuseModel model_;
  GhostTable ghosts_;
  std::uint32_t queued_ = 0;
};

}  // namespace simm::store
