#include "daemon/cluster/shard_loads.h"

#include <algorithm>

#include "daemon/base/ids.h"
#include "daemon/cluster/exchange_chains.h"

namespace simm::cluster {
namespace {

// What a shard may be off its part before slots move for it.
constexpr std::uint32_t kTolerancePercent = 5;

}  // namespace

ShardLoads::ShardLoads(const std::vector<MapMember>& members,
                       const std::vector<std::uint32_t>& targets, std::vector<MemberIndex>& owners)
    : owners_(owners), members_(members.size()) {
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    Member& member = members_[i];
    const std::uint32_t target = targets[i];
    const std::uint32_t hundred_parts = 100 * members[i].shards;
    member.shards = members[i].shards;
    member.first = first;
    member.part_down = target / member.shards;
    member.part_up = (target + member.shards - 1) / member.shards;
    const std::uint32_t least = target * (100 - kTolerancePercent);
    const std::uint32_t most = target * (100 + kTolerancePercent);
    member.tolerated_least =
        std::min(member.part_down, (least + hundred_parts - 1) / hundred_parts);
    member.tolerated_most = std::max(member.part_up, most / hundred_parts);
    member.missing = target;
    member.spare = std::int64_t{target} - std::int64_t{member.tolerated_least} * member.shards;
    first += member.shards;
  }
  loads_.resize(first);
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (owners_[slot] != kNoMember) give(slot, owners_[slot]);
  }
}

bool ShardLoads::has_any_room(MemberIndex member, Limit limit) const noexcept {
  const Member& of = members_[member];
  for (std::uint32_t shard = of.first; shard < of.first + of.shards; ++shard) {
    if (has_room_in(shard, of, limit)) return true;
  }
  return false;
}

bool ShardLoads::has_too_much(MemberIndex member) const noexcept {
  const Member& of = members_[member];
  const auto begin = loads_.begin() + of.first;
  return of.spare < 0 || *std::max_element(begin, begin + of.shards) > of.tolerated_most;
}

bool ShardLoads::is_above_limit(std::uint32_t slot) const noexcept {
  const MemberIndex owner = owners_[slot];
  return loads_[shard_of(owner, slot)] > members_[owner].tolerated_most;
}

bool ShardLoads::is_surplus(std::uint32_t slot) const noexcept {
  const Member& owner = members_[owners_[slot]];
  return owner.spare < 0 && loads_[shard_of(owners_[slot], slot)] > owner.tolerated_least;
}

void ShardLoads::take(std::uint32_t slot) noexcept {
  Member& owner = members_[owners_[slot]];
  std::uint32_t& load = loads_[shard_of(owners_[slot], slot)];
  if (load > owner.tolerated_least) ++owner.spare;
  ++owner.missing;
  --load;
  owners_[slot] = kNoMember;
}

void ShardLoads::give(std::uint32_t slot, MemberIndex member) noexcept {
  Member& owner = members_[member];
  std::uint32_t& load = loads_[shard_of(member, slot)];
  if (load >= owner.tolerated_least) --owner.spare;
  --owner.missing;
  ++load;
  owners_[slot] = member;
}

void ShardLoads::exchange() {
  ExchangeChains chains(*this);
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (owners_[slot] == kNoMember) chains.place(slot);
  }
}

}  // namespace simm::cluster
