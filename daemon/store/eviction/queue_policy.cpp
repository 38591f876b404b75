#include "daemon/store/eviction/queue_policy.h"

#include <algorithm>

namespace simm::store {

QueuePolicy::QueuePolicy(Table<Group> groups, std::uint32_t accounts, bool by_use)
    : EvictionPolicy(groups), queues_(accounts), by_use_(by_use) {}

void QueuePolicy::note_use(std::uint32_t number, base::TimeNs now_ns) noexcept {
  Group& g = groups_[number];
  if (!by_use_) g.depth_step = 0;  // it is in no queue when it is used first
  if (by_use_ || g.uses == 0) static_cast<void>(count_use(number, now_ns));
  DepthQueue& queue = queues_[g.account];
  if (!by_use_ || !g.queued || queue.keeps_place(groups_, number, now_ns)) return;
  queue.remove(groups_, number);
  queue.enqueue(groups_, number);
}

void QueuePolicy::enqueue(std::uint32_t number) noexcept {
  queues_[groups_[number].account].enqueue(groups_, number);
  groups_[number].queued = true;
}

void QueuePolicy::dequeue(std::uint32_t number) noexcept {
  queues_[groups_[number].account].remove(groups_, number);
  groups_[number].queued = false;
}

EvictionPolicy::Candidate QueuePolicy::candidate(std::uint32_t account,
                                                 base::TimeNs) const noexcept {
  const std::uint32_t front = queues_[account].front();
  if (front == kNone) return {};
  return {front, static_cast<double>(groups_[front].used_ns)};
}

bool QueuePolicy::may_replace(std::uint32_t group, std::uint32_t candidate, std::uint32_t times,
                              base::TimeNs now_ns) const noexcept {
  const auto age_ns = [&](std::uint32_t number) {
    return now_ns - std::min(now_ns, groups_[number].used_ns);
  };
  return times * age_ns(group) >= age_ns(candidate);
}

const char* QueuePolicy::audit(std::uint32_t& queued) const noexcept {
  queued = 0;
  for (std::uint32_t account = 0; account < queues_.size(); ++account) {
    const DepthQueue& queue = queues_[account];
    if (const char* wrong = queue.audit(groups_)) return wrong;
    for (std::uint32_t n = queue.front(); n != kNone; n = queue.next(groups_, n)) {
      if (groups_[n].account != account) return "a group is queued in the wrong account";
      if (!groups_[n].queued) return "a queued group does not know it";
      ++queued;
    }
  }
  return nullptr;
}

}  // namespace simm::store
