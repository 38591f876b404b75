#include "daemon/cluster/slot_map_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "daemon/base/hash.h"
#include "daemon/base/random.h"
#include "daemon/base/replica.h"
#include "daemon/cluster/mirror_parting.h"
#include "daemon/cluster/shard_loads.h"
#include "simm/check.h"

namespace simm::cluster {
namespace {

struct Share {
  std::uint32_t low = 0;        // rounded down
  std::uint64_t remainder = 0;  // of the division; 0: the share is a whole number
  std::uint32_t have = 0;
  std::uint32_t target = 0;

  [[nodiscard]] std::uint32_t high() const { return low + (remainder > 0 ? 1 : 0); }
  [[nodiscard]] std::uint32_t missing() const { return target > have ? target - have : 0; }
};

// Wraps on purpose (tests/fuzz/ignorelist.txt).
std::uint64_t seed_of_slot(std::uint64_t seed, std::uint32_t slot) {
  return seed ^ (slot * 0xd1342543de82ef95u);
}

// In (0, 1); the greater one has the smaller claim.
double draw(std::uint64_t seed, std::uint32_t slot) {
  std::uint64_t state = seed_of_slot(seed, slot);
  const std::uint64_t mixed = base::splitmix64(state);
  return (static_cast<double>(mixed >> 11) + 0.5) * 0x1p-53;
}

class Builder {
public:
  Builder(const std::vector<MapMember>& members, const SlotMap* previous, Mirrors mirrors)
      : members_(members), mirrors_(mirrors) {
    for (const MapMember& member : members) {
      const std::string name = full_name(member.identity);
      seeds_.push_back(base::payload_digest(name.data(), name.size()));
      weights_.push_back(static_cast<double>(member.weight_bytes));
    }
    inherit(previous);
  }

  std::vector<MemberIndex> build() {
    if (members_.empty()) return owner_;
    divide();
    ShardLoads loads(members_, targets(), owner_);
    release(loads);
    // Each shard its part, rounded down; then what remains; then with chains of exchanges.
    assign(loads, ShardLoads::Limit::part_rounded_down);
    assign(loads, ShardLoads::Limit::part_rounded_up);
    loads.exchange();
    assign(loads, ShardLoads::Limit::none);
    if (mirrors_ == Mirrors::apart) part_mirrors(members_, owner_);
    return owner_;
  }

private:
  void inherit(const SlotMap* previous) {
    owner_.assign(base::kSlotCount, kNoMember);
    shares_.resize(members_.size());
    if (previous == nullptr) return;
    std::map<std::string, MemberIndex> index;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      index[full_name(members_[i].identity)] = static_cast<MemberIndex>(i);
    }
    std::vector<MemberIndex> now(previous->members().size(), kNoMember);
    for (std::size_t i = 0; i < now.size(); ++i) {
      const auto found = index.find(full_name(previous->members()[i].identity));
      if (found != index.end()) now[i] = found->second;
    }
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      const MemberIndex was = previous->owner(static_cast<base::Slot>(slot));
      owner_[slot] = was == kNoMember ? kNoMember : now[was];
      if (owner_[slot] != kNoMember) ++shares_[owner_[slot]].have;
    }
  }

  // Targets that sum up to all slots, each next to its share, as near as possible to what is held.
  void divide() {
    std::uint64_t sum = 0;
    for (const MapMember& member : members_) sum += member.weight_bytes;
    std::int64_t open = base::kSlotCount;
    std::vector<MemberIndex> order;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Share& share = shares_[i];
      const std::uint64_t product = base::kSlotCount * members_[i].weight_bytes;
      share.low = static_cast<std::uint32_t>(product / sum);
      share.remainder = product % sum;
      share.target = std::clamp(share.have, share.low, share.high());
      open -= share.target;
      order.push_back(static_cast<MemberIndex>(i));
    }
    std::sort(order.begin(), order.end(), [&](MemberIndex a, MemberIndex b) {
      if (shares_[a].remainder != shares_[b].remainder) {
        return shares_[a].remainder > shares_[b].remainder;
      }
      return full_name(members_[a].identity) < full_name(members_[b].identity);
    });
    for (auto at = order.begin(); open > 0 && at != order.end(); ++at) {
      if (shares_[*at].target < shares_[*at].high()) ++shares_[*at].target, --open;
    }
    for (auto at = order.rbegin(); open < 0 && at != order.rend(); ++at) {
      if (shares_[*at].target > shares_[*at].low) --shares_[*at].target, ++open;
    }
    SIMM_CHECK(open == 0);
  }

  [[nodiscard]] double claim(MemberIndex member, double drawn) const {
    return -std::log(drawn) / weights_[member];
  }
  [[nodiscard]] double claim_on(MemberIndex member, std::uint32_t slot) const {
    return claim(member, draw(seeds_[member], slot));
  }

  // Whether the claim of `a` is the smaller one. A logarithm is most of what a map costs. It
  // is taken only when one of the two has the greater weight and the other one the greater draw.
  [[nodiscard]] bool beats(MemberIndex a, double drawn_a, MemberIndex b, double drawn_b) const {
    if (drawn_a <= drawn_b && weights_[a] <= weights_[b]) return false;
    if (drawn_a >= drawn_b && weights_[a] >= weights_[b]) return true;
    return claim(a, drawn_a) < claim(b, drawn_b);
  }

  [[nodiscard]] std::vector<std::uint32_t> targets() const {
    std::vector<std::uint32_t> all;
    for (const Share& share : shares_) all.push_back(share.target);
    return all;
  }

  // Who is not to have the slot; kNoMember: everybody may.
  [[nodiscard]] MemberIndex owner_of_mirror(std::uint32_t slot) const {
    if (mirrors_ == Mirrors::anywhere) return kNoMember;
    return owner_[base::mirror_of(static_cast<base::Slot>(slot))];
  }

  // In a cluster that grows most members have no room for any slot, so they are left out before
  // slots are looked at.
  [[nodiscard]] std::vector<MemberIndex> receivers(const ShardLoads& loads,
                                                   ShardLoads::Limit limit) const {
    std::vector<MemberIndex> all;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto member = static_cast<MemberIndex>(i);
      if (loads.has_any_room(member, limit)) all.push_back(member);
    }
    return all;
  }

  // Who would get the slot, among those receivers with room for it that do not own its mirror;
  // kNoMember: there are none.
  [[nodiscard]] MemberIndex best_receiver(const std::vector<MemberIndex>& among,
                                          const ShardLoads& loads, ShardLoads::Limit limit,
                                          std::uint32_t slot) const {
    const MemberIndex mirror_owner = owner_of_mirror(slot);
    MemberIndex best = kNoMember;
    double best_drawn = 0;
    for (const MemberIndex member : among) {
      if (member == mirror_owner || !loads.has_room(member, slot, limit)) continue;
      const double drawn = draw(seeds_[member], slot);
      if (best != kNoMember && !beats(member, drawn, best, best_drawn)) continue;
      best = member;
      best_drawn = drawn;
    }
    return best;
  }

  void release(ShardLoads& loads) {
    constexpr auto kLimit = ShardLoads::Limit::tolerated;
    const std::vector<MemberIndex> among = receivers(loads, kLimit);
    std::vector<std::vector<std::pair<double, std::uint32_t>>> offers(members_.size());
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      const MemberIndex owner = owner_[slot];
      if (owner == kNoMember || !loads.has_too_much(owner)) continue;
      // Those that nobody has room for yet go last.
      const MemberIndex receiver = best_receiver(among, loads, kLimit, slot);
      const double worth = receiver == kNoMember ? std::numeric_limits<double>::infinity()
                                                 : claim_on(receiver, slot) / claim_on(owner, slot);
      offers[owner].emplace_back(worth, slot);
    }
    for (auto& of_member : offers) {
      std::sort(of_member.begin(), of_member.end());
      for (const auto& [worth, slot] : of_member) {
        if (loads.is_above_limit(slot)) loads.take(slot);
      }
      for (const auto& [worth, slot] : of_member) {
        if (owner_[slot] != kNoMember && loads.is_surplus(slot)) loads.take(slot);
      }
    }
  }

  void assign(ShardLoads& loads, ShardLoads::Limit limit) {
    std::vector<MemberIndex> among = receivers(loads, limit);
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      if (owner_[slot] != kNoMember) continue;
      MemberIndex receiver = best_receiver(among, loads, limit, slot);
      const MemberIndex last = owner_of_mirror(slot);
      const bool is_last_chance = limit == ShardLoads::Limit::none && last != kNoMember;
      if (receiver == kNoMember && is_last_chance && loads.has_room(last, slot, limit)) {
        receiver = last;
      }
      if (receiver == kNoMember) continue;
      loads.give(slot, receiver);
      if (!loads.has_any_room(receiver, limit)) std::erase(among, receiver);
    }
  }

  const std::vector<MapMember>& members_;
  const Mirrors mirrors_;
  std::vector<std::uint64_t> seeds_;
  std::vector<double> weights_;
  std::vector<Share> shares_;
  std::vector<MemberIndex> owner_;  // by slot
};

// Since which epochs the incarnations of a list of members have owned their slots in an older map.
class Tenures {
public:
  Tenures(const SlotMap* map, const std::vector<MapMember>& members) : map_(map) {
    if (map == nullptr) return;
    for (const MapMember& member : members) {
      there_.push_back(map->find(member.identity.incarnation).value_or(kNoMember));
    }
  }

  // 0: that member does not own the slot there.
  [[nodiscard]] base::Epoch since(MemberIndex member, base::Slot slot) const {
    if (map_ == nullptr || there_[member] == kNoMember) return 0;
    return map_->owner(slot) == there_[member] ? map_->since(slot) : 0;
  }

private:
  const SlotMap* map_;
  std::vector<MemberIndex> there_;  // their indices in `map_`
};

// Whoever had both slots of a pair has one copy of what was put there. When the second slot goes to
// somebody else, who keeps the first one lacks the copies of what the second one has.
void note_parted(base::Epoch epoch, const SlotMap& previous, const std::vector<SlotOwner>& owners,
                 std::vector<MapMember>& members) {
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const base::Slot mirror = base::mirror_of(slot);
    const SlotOwner& owner = owners[slot];
    const bool was_lone = previous.owner(slot) == previous.owner(mirror);
    if (!was_lone || owner.member == kNoMember || owner.since == epoch) continue;
    if (owners[mirror].member != owner.member) members[owner.member].back_since = epoch;
  }
}

}  // namespace

Expected<SlotMapPtr> build_slot_map(base::Epoch epoch, std::vector<MapMember> members,
                                    const SlotMap* previous, const SlotMap* current, MapLife life,
                                    std::uint64_t follows, Mirrors mirrors) {
  // Before the work: its sums and indices rely on it.
  if (Outcome checked = check_members(members); !checked) return std::move(checked).error();
  std::sort(members.begin(), members.end(), [](const MapMember& a, const MapMember& b) {
    return full_name(a.identity) < full_name(b.identity);
  });
  const std::vector<MemberIndex> owner = Builder(members, previous, mirrors).build();
  const Tenures before(previous, members);
  const Tenures now(current, members);
  std::vector<SlotOwner> owners(base::kSlotCount);
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    if (owner[i] == kNoMember) continue;
    const auto slot = static_cast<base::Slot>(i);
    const base::Epoch since = before.since(owner[i], slot);
    const bool broken = current != nullptr && now.since(owner[i], slot) == 0;
    owners[i] = {owner[i], since == 0 || broken ? epoch : since};
  }
  if (mirrors == Mirrors::apart && previous != nullptr) {
    note_parted(epoch, *previous, owners, members);
  }
  return SlotMap::make(epoch, std::move(members), std::move(owners), std::move(life), follows);
}

}  // namespace simm::cluster
