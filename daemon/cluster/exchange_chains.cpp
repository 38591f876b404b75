#include "daemon/cluster/exchange_chains.h"

#include <algorithm>
#include <map>
#include <set>

#include "daemon/base/ids.h"

namespace simm::cluster {
namespace {

// Looks of a class at a member, in all chains of a map: some tenths of a second.
constexpr std::uint64_t kLooksMax = std::uint64_t{1} << 27;

}  // namespace

ExchangeChains::ExchangeChains(ShardLoads& loads)
    : loads_(loads), slots_(loads.loads_.size()), looks_left_(kLooksMax) {
  classify();
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    const MemberIndex owner = loads_.owners_[slot];
    if (owner != kNoMember) slots_[loads_.shard_of(owner, slot)].push_back(slot);
  }
}

void ExchangeChains::classify() {
  std::set<std::uint32_t> divisors;
  for (const auto& member : loads_.members_) divisors.insert(member.shards);
  class_of_.assign(base::kSlotCount, 0);
  class_count_ = 1;
  for (const std::uint32_t divisor : divisors) {
    std::map<std::uint64_t, std::uint32_t> parts;
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      const std::uint64_t part = std::uint64_t{class_of_[slot]} * divisor + slot % divisor;
      class_of_[slot] = parts.emplace(part, parts.size()).first->second;
    }
    class_count_ = static_cast<std::uint32_t>(parts.size());
  }
}

void ExchangeChains::place(std::uint32_t slot) {
  steps_.assign(class_count_, Step{});
  is_shard_done_.assign(slots_.size(), false);
  is_member_done_.assign(loads_.members_.size(), false);
  queue_.assign(1, class_of_[slot]);
  steps_[class_of_[slot]] = {slot, class_of_[slot], true};
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    const std::uint32_t reached = queue_[next];
    const std::uint32_t pushed = steps_[reached].slot;
    if (looks_left_ < loads_.members_.size()) return;
    looks_left_ -= loads_.members_.size();
    for (std::size_t i = 0; i < loads_.members_.size(); ++i) {
      const auto member = static_cast<MemberIndex>(i);
      const ShardLoads::Member& of = loads_.members_[i];
      if (loads_.has_room(member, pushed, ShardLoads::Limit::tolerated)) {
        return settle(reached, member);
      }
      const std::uint32_t shard = loads_.shard_of(member, pushed);
      if (loads_.loads_[shard] >= of.tolerated_most) {
        push_on(reached, shard);
      } else if (!is_member_done_[i]) {
        // The shard has room, and the member has none: any other shard of it may give one up.
        is_member_done_[i] = true;
        for (std::uint32_t other = of.first; other < of.first + of.shards; ++other) {
          if (loads_.loads_[other] > of.tolerated_least) push_on(reached, other);
        }
      }
    }
  }
}

// One slot of each class that the shard has may be the next to need a place.
void ExchangeChains::push_on(std::uint32_t from, std::uint32_t shard) {
  if (is_shard_done_[shard]) return;
  is_shard_done_[shard] = true;
  for (const std::uint32_t slot : slots_[shard]) {
    Step& step = steps_[class_of_[slot]];
    if (step.is_reached) continue;
    step = {slot, from, true};
    queue_.push_back(class_of_[slot]);
  }
}

// The last slot of the chain goes to `member`, the one before it takes its place, and so on.
void ExchangeChains::settle(std::uint32_t last, MemberIndex member) {
  std::uint32_t reached = last;
  MemberIndex receiver = member;
  while (true) {
    const Step& step = steps_[reached];
    const MemberIndex giver = loads_.owners_[step.slot];
    if (giver != kNoMember) {
      auto& held = slots_[loads_.shard_of(giver, step.slot)];
      held.erase(std::find(held.begin(), held.end(), step.slot));
      loads_.take(step.slot);
    }
    loads_.give(step.slot, receiver);
    slots_[loads_.shard_of(receiver, step.slot)].push_back(step.slot);
    if (step.from == reached) return;
    receiver = giver;
    reached = step.from;
  }
}

}  // namespace simm::cluster
