#include "daemon/store/eviction/reuse_policy.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace simm::store {

namespace {

std::uint8_t later(std::uint8_t uses) noexcept {
  constexpr std::uint8_t kMost = std::numeric_limits<std::uint8_t>::max();
  return uses == kMost ? kMost : static_cast<std::uint8_t>(uses + 1);
}

}  // namespace

ReusePolicy::ReusePolicy(Table<Group> groups, std::uint32_t accounts, ReservedMemory memory,
                         GhostTable ghosts)
    : EvictionPolicy(groups),
      memory_(std::move(memory)),
      tenancies_(accounts),
      ghosts_(std::move(ghosts)) {
  static_assert(std::is_trivially_destructible_v<Tenancy>);
}

void ReusePolicy::begin_account(std::uint32_t account) noexcept {
  // SAFETY: page-aligned zeroed memory of a Place for each account, and zeros are a valid one.
  Place& place = reinterpret_cast<Place*>(memory_.data())[account];
  if (tenancies_[account] != nullptr) std::memset(static_cast<void*>(&place), 0, sizeof place);
  tenancies_[account] = new (place.tenancy.data())
      Tenancy{{}, 0, ReuseModel(place.model), PolicyContest(place.contest)};
}

void ReusePolicy::note_use(std::uint32_t number, base::TimeNs now_ns) noexcept {
  Group& g = groups_[number];
  if (tenancies_[g.account] == nullptr) begin_account(g.account);
  Tenancy& t = tenancy_of(g);
  const std::uint8_t uses = g.uses;
  if (count_use(number, now_ns)) {
    if (uses == 0) g.uses = later(ghosts_.take(g.hash, g.account));
    t.model.note(g.hash, g.uses, t.queued, now_ns);
    t.contest.note(g.hash, g.uses, t.queued, t.model, now_ns);
  }
  if (!g.queued) return;
  DepthQueue& before = t.queues[ReuseModel::class_of(uses)];
  DepthQueue& after = queue_of(t, g);
  if (&after == &before && after.keeps_place(groups_, number, now_ns)) return;
  before.remove(groups_, number);
  after.enqueue(groups_, number);
}

void ReusePolicy::note_eviction(std::uint32_t number) noexcept {
  const Group& g = groups_[number];
  const std::uint64_t queued = std::max(queued_, 1u);
  const std::uint64_t ways = GhostTable::kWays * tenancy_of(g).queued / queued + 1;
  ghosts_.fit(queued_);
  ghosts_.put(g.hash, g.account, g.uses,
              static_cast<std::uint32_t>(std::min<std::uint64_t>(ways, GhostTable::kWays)));
}

void ReusePolicy::enqueue(std::uint32_t number) noexcept {
  Group& g = groups_[number];
  Tenancy& t = tenancy_of(g);
  queue_of(t, g).enqueue(groups_, number);
  g.queued = true;
  ++t.queued;
  ++queued_;
}

void ReusePolicy::dequeue(std::uint32_t number) noexcept {
  Group& g = groups_[number];
  Tenancy& t = tenancy_of(g);
  queue_of(t, g).remove(groups_, number);
  g.queued = false;
  --t.queued;
  --queued_;
}

EvictionPolicy::Candidate ReusePolicy::candidate(std::uint32_t account,
                                                 base::TimeNs now_ns) const noexcept {
  const Tenancy* const t = tenancies_[account];
  if (t == nullptr) return {};
  return t->contest.prefers_age() ? oldest_of(*t, now_ns) : cheapest_of(*t, now_ns);
}

EvictionPolicy::Candidate ReusePolicy::oldest_of(const Tenancy& t,
                                                 base::TimeNs now_ns) const noexcept {
  std::uint32_t oldest = kNone;
  for (const DepthQueue& queue : t.queues) {
    const std::uint32_t front = queue.front();
    if (front == kNone) continue;
    if (oldest == kNone || groups_[front].used_ns < groups_[oldest].used_ns) oldest = front;
  }
  if (oldest == kNone) return {};
  return {oldest, worth_of(t, groups_[oldest], now_ns)};
}

EvictionPolicy::Candidate ReusePolicy::cheapest_of(const Tenancy& t,
                                                   base::TimeNs now_ns) const noexcept {
  Candidate cheapest;
  const auto offer = [&](std::uint32_t number) {
    const float worth = worth_of(t, groups_[number], now_ns);
    if (cheapest.group == kNone || worth < cheapest.worth) cheapest = {number, worth};
  };
  for (std::uint32_t c = 0; c < ReuseModel::kClasses; ++c) {
    const DepthQueue& queue = t.queues[c];
    if (queue.front() == kNone) continue;
    offer(queue.front());
    if (!ReuseModel::offers_newest(c)) continue;
    const std::uint32_t newest = queue.newest(groups_);
    if (newest != kNone) offer(newest);
  }
  return cheapest;
}

bool ReusePolicy::may_replace(std::uint32_t group, std::uint32_t candidate, std::uint32_t times,
                              base::TimeNs now_ns) const noexcept {
  const Group& g = groups_[group];
  const Tenancy& t = *tenancies_[g.account];
  if (t.contest.prefers_age()) {
    return times * age_of(g, now_ns) >= age_of(groups_[candidate], now_ns);
  }
  return worth_of(t, g, now_ns) <=
         static_cast<float>(times) * worth_of(t, groups_[candidate], now_ns);
}

const char* ReusePolicy::audit(std::uint32_t& queued) const noexcept {
  queued = 0;
  for (std::uint32_t account = 0; account < tenancies_.size(); ++account) {
    if (tenancies_[account] == nullptr) continue;
    const std::uint32_t before = queued;
    for (std::uint32_t c = 0; c < ReuseModel::kClasses; ++c) {
      const DepthQueue& queue = tenancies_[account]->queues[c];
      if (const char* wrong = queue.audit(groups_)) return wrong;
      for (std::uint32_t n = queue.front(); n != kNone; n = queue.next(groups_, n)) {
        const Group& g = groups_[n];
        if (g.account != account) return "a group is queued in the wrong account";
        if (!g.queued) return "a queued group does not know it";
        if (ReuseModel::class_of(g.uses) != c) return "a group is queued in the wrong class";
        ++queued;
      }
    }
    if (queued - before != tenancies_[account]->queued) {
      return "the number of an account's queued groups is wrong";
    }
  }
  return queued == queued_ ? nullptr : "the number of queued groups is wrong";
}

}  // namespace simm::store
