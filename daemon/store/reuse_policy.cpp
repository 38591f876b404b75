#include "daemon/store/reuse_policy.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace simm::store {

namespace {

std::uint8_t later(std::uint8_t uses) noexcept {
  constexpr std::uint8_t kMost = std::numeric_limits<std::uint8_t>::max();
  return uses == kMost ? kMost : static_cast<std::uint8_t>(uses + 1);
}

}  // namespace

ReusePolicy::ReusePolicy(Table<Group> groups, std::uint32_t accounts, GhostTable ghosts)
    : EvictionPolicy(groups), queues_(accounts), ghosts_(std::move(ghosts)) {}

void ReusePolicy::note_use(std::uint32_t number, base::TimeNs now_ns) noexcept {
  Group& g = groups_[number];
  DepthQueue& before = queue_of(g);
  const bool returns = g.uses == 0;
  if (count_use(number, now_ns)) {
    if (returns) g.uses = later(ghosts_.take(g.hash));
    model_.note(g.hash, g.uses, queued_, now_ns);
  }
  DepthQueue& after = queue_of(g);  // it depends on the uses
  if (!g.queued || (&after == &before && after.keeps_place(groups_, number, now_ns))) return;
  before.remove(groups_, number);
  after.enqueue(groups_, number);
}

void ReusePolicy::note_eviction(std::uint32_t number) noexcept {
  const Group& g = groups_[number];
  ghosts_.fit(queued_);
  ghosts_.put(g.hash, g.uses);
}

void ReusePolicy::enqueue(std::uint32_t number) noexcept {
  Group& g = groups_[number];
  queue_of(g).enqueue(groups_, number);
  g.queued = true;
  ++queued_;
}

void ReusePolicy::dequeue(std::uint32_t number) noexcept {
  Group& g = groups_[number];
  queue_of(g).remove(groups_, number);
  g.queued = false;
  --queued_;
}

EvictionPolicy::Candidate ReusePolicy::candidate(std::uint32_t account,
                                                 base::TimeNs now_ns) const noexcept {
  Candidate cheapest;
  for (std::uint32_t c = 0; c < ReuseModel::kClasses; ++c) {
    const std::uint32_t front = queues_[account][c].front();
    if (front == kNone) continue;
    const float worth = worth_of(groups_[front], now_ns);
    if (cheapest.group == kNone || worth < cheapest.worth) cheapest = {front, worth};
  }
  return cheapest;
}

bool ReusePolicy::may_replace(std::uint32_t group, std::uint32_t candidate, std::uint32_t times,
                              base::TimeNs now_ns) const noexcept {
  return worth_of(groups_[group], now_ns) <=
         static_cast<float>(times) * worth_of(groups_[candidate], now_ns);
}

const char* ReusePolicy::audit(std::uint32_t& queued) const noexcept {
  queued = 0;
  for (std::uint32_t account = 0; account < queues_.size(); ++account) {
    for (std::uint32_t c = 0; c < ReuseModel::kClasses; ++c) {
      const DepthQueue& queue = queues_[account][c];
      if (const char* wrong = queue.audit(groups_)) return wrong;
      for (std::uint32_t n = queue.front(); n != kNone; n = queue.next(groups_, n)) {
        const Group& g = groups_[n];
        if (g.account != account) return "a group is queued in the wrong account";
        if (!g.queued) return "a queued group does not know it";
        if (ReuseModel::class_of(g.uses) != c) return "a group is queued in the wrong class";
        ++queued;
      }
    }
  }
  return queued == queued_ ? nullptr : "the number of queued groups is wrong";
}

}  // namespace simm::store
