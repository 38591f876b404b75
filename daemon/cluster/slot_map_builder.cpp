#include "daemon/cluster/slot_map_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "daemon/base/hash.h"
#include "daemon/base/random.h"
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

class Builder {
public:
  Builder(const std::vector<MapMember>& members, const SlotMap* previous) : members_(members) {
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
    release();
    assign();
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

  [[nodiscard]] double claim(MemberIndex member, std::uint32_t slot) const {
    std::uint64_t state = seeds_[member] ^ (slot * 0xd1342543de82ef95u);
    const std::uint64_t mixed = base::splitmix64(state);
    const double u = (static_cast<double>(mixed >> 11) + 0.5) * 0x1p-53;
    return -std::log(u) / weights_[member];
  }

  // Who would get the slot, among the members that are to get more; and how good that claim is.
  [[nodiscard]] std::pair<MemberIndex, double> best_receiver(std::uint32_t slot) const {
    MemberIndex best = kNoMember;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i].missing() == 0) continue;
      const double mine = claim(static_cast<MemberIndex>(i), slot);
      if (best == kNoMember || mine < least) {
        best = static_cast<MemberIndex>(i);
        least = mine;
      }
    }
    return {best, least};
  }

  void release() {
    std::vector<std::vector<std::pair<double, std::uint32_t>>> offers(shares_.size());
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      const MemberIndex owner = owner_[slot];
      if (owner == kNoMember || shares_[owner].have <= shares_[owner].target) continue;
      offers[owner].emplace_back(best_receiver(slot).second / claim(owner, slot), slot);
    }
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      Share& share = shares_[i];
      std::sort(offers[i].begin(), offers[i].end());
      for (std::size_t next = 0; share.have > share.target; ++next, --share.have) {
        owner_[offers[i][next].second] = kNoMember;
      }
    }
  }

  void assign() {
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      if (owner_[slot] != kNoMember) continue;
      const MemberIndex receiver = best_receiver(slot).first;
      SIMM_CHECK(receiver != kNoMember);
      owner_[slot] = receiver;
      ++shares_[receiver].have;
    }
  }

  const std::vector<MapMember>& members_;
  std::vector<std::uint64_t> seeds_;
  std::vector<double> weights_;
  std::vector<Share> shares_;
  std::vector<MemberIndex> owner_;  // by slot
};

// The epoch since which that incarnation has owned the slot in `map`; 0: it does not own it there.
base::Epoch held_since(const SlotMap& map, base::Slot slot, const Incarnation& incarnation) {
  const MapMember* owner = map.owner_of(slot);
  return owner != nullptr && owner->identity.incarnation == incarnation ? map.since(slot) : 0;
}

}  // namespace

SlotMapPtr build_slot_map(base::Epoch epoch, std::vector<MapMember> members,
                          const SlotMap* previous, const SlotMap* current) {
  std::sort(members.begin(), members.end(), [](const MapMember& a, const MapMember& b) {
    return full_name(a.identity) < full_name(b.identity);
  });
  const std::vector<MemberIndex> owner = Builder(members, previous).build();
  std::vector<SlotOwner> owners(base::kSlotCount);
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    if (owner[i] == kNoMember) continue;
    const auto slot = static_cast<base::Slot>(i);
    const Incarnation& incarnation = members[owner[i]].identity.incarnation;
    const base::Epoch since = previous == nullptr ? 0 : held_since(*previous, slot, incarnation);
    const bool broken = current != nullptr && held_since(*current, slot, incarnation) == 0;
    owners[i] = {owner[i], since == 0 || broken ? epoch : since};
  }
  Expected<SlotMapPtr> made = SlotMap::make(epoch, std::move(members), std::move(owners));
  SIMM_CHECK(made.has_value());
  return std::move(made).value();
}

}  // namespace simm::cluster
