// QueuePolicy: one queue per account. First in, first out; or least recently used, when a use makes
// a group the youngest. Of those used at nearly the same time the
// deepest leaves first; first in, first out heeds no depth. Thread: the data agent of the store.
#pragma once

#include <vector>

#include "daemon/store/eviction/depth_queue.h"
#include "daemon/store/eviction/eviction_policy.h"

namespace simm::store {

class QueuePolicy final : public EvictionPolicy {
public:
  QueuePolicy(Table<Group> groups, std::uint32_t accounts, bool by_use);

  void begin_account(std::uint32_t) noexcept override {}
  void note_use(std::uint32_t group, base::TimeNs now_ns) noexcept override;
  void enqueue(std::uint32_t group) noexcept override;
  void dequeue(std::uint32_t group) noexcept override;
  void note_eviction(std::uint32_t) noexcept override {}
  [[nodiscard]] Candidate candidate(std::uint32_t account,
                                    base::TimeNs now_ns) const noexcept override;
  [[nodiscard]] bool may_replace(std::uint32_t group, std::uint32_t candidate, std::uint32_t times,
                                 base::TimeNs now_ns) const noexcept override;
  [[nodiscard]] const char* audit(std::uint32_t& queued) const noexcept override;

private:
  std::vector<DepthQueue> queues_;  // by account; never grows
  const bool by_use_;
};

}  // namespace simm::store
