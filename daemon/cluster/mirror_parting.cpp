#include "daemon/cluster/mirror_parting.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include "daemon/base/mix.h"
#include "daemon/base/replica.h"

namespace simm::cluster {
namespace {

class Parting {
public:
  Parting(const std::vector<MapMember>& members, std::vector<MemberIndex>& owners)
      : members_(members), owners_(owners) {
    std::uint64_t shards = 1;
    for (const MapMember& member : members) {
      shards = std::lcm(shards, std::uint64_t{member.shards});
      if (shards >= base::kSlotCount) break;
    }
    classes_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(shards, base::kSlotCount));
    count_loads();
  }

  void run() {
    for (std::uint32_t slot = 0; slot < base::kSlotCount / 2; ++slot) {
      const std::uint32_t mirror = mirror_of(slot);
      if (owners_[slot] == kNoMember || owners_[slot] != owners_[mirror]) continue;
      if (exchange(slot, Shards::same) || exchange(mirror, Shards::same)) continue;
      if (!exchange(slot, Shards::even)) static_cast<void>(exchange(mirror, Shards::even));
    }
  }

private:
  // What an exchange leaves as it was: the slots of each shard, or that shards are even.
  enum class Shards : std::uint8_t { same, even };

  struct Loads {
    std::vector<std::uint32_t> slots;  // by shard
    std::uint32_t least = 0;           // that a shard may have, as in shard_loads.h
    std::uint32_t most = 0;
  };

  void count_loads() {
    for (const MapMember& member : members_) {
      loads_.emplace_back().slots.resize(member.shards);
    }
    std::vector<std::uint32_t> sums(members_.size());
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      if (owners_[slot] == kNoMember) continue;
      ++load_of(owners_[slot], slot);
      ++sums[owners_[slot]];
    }
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      const std::uint32_t shards = members_[i].shards;
      const std::uint32_t share = sums[i];
      loads_[i].least = std::min(share / shards, (share * 95 + 100 * shards - 1) / (100 * shards));
      loads_[i].most = std::max((share + shards - 1) / shards, share * 105 / (100 * shards));
    }
  }
  std::uint32_t& load_of(MemberIndex member, std::uint32_t slot) {
    return loads_[member].slots[slot % members_[member].shards];
  }
  void give(std::uint32_t slot, MemberIndex member) {
    --load_of(owners_[slot], slot);
    ++load_of(member, slot);
    owners_[slot] = member;
  }

  [[nodiscard]] static std::uint32_t mirror_of(std::uint32_t slot) {
    return base::mirror_of(static_cast<base::Slot>(slot));
  }

  // The slot leaves its owner, who gets another one for it. False: nobody has one that would do.
  bool exchange(std::uint32_t slot, Shards shards) {
    const MemberIndex owner = owners_[slot];
    auto& in_vain = in_vain_[static_cast<std::size_t>(shards)];
    if (in_vain.count({owner, slot % classes_}) != 0) return false;
    // From a place of its own, so that not all exchanges are with the same member.
    const auto first = static_cast<std::uint32_t>(base::mix(slot) % base::kSlotCount);
    for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
      const std::uint32_t other = (first + i) % base::kSlotCount;
      const MemberIndex receiver = owners_[other];
      if (receiver == kNoMember || receiver == owner) continue;
      if (owners_[mirror_of(other)] == owner) continue;
      if (!may_change(owner, slot, other, shards)) continue;
      if (!may_change(receiver, other, slot, shards)) continue;
      give(slot, receiver);
      give(other, owner);
      return true;
    }
    in_vain.insert({owner, slot % classes_});
    return false;
  }

  // Whether the member may have the slot `gets` instead of `loses`.
  [[nodiscard]] bool may_change(MemberIndex member, std::uint32_t loses, std::uint32_t gets,
                                Shards shards) {
    const std::uint32_t count = members_[member].shards;
    if (loses % count == gets % count) return true;
    if (shards == Shards::same) return false;
    return load_of(member, loses) > loads_[member].least &&
           load_of(member, gets) < loads_[member].most;
  }

  const std::vector<MapMember>& members_;
  std::vector<MemberIndex>& owners_;
  // Slots of one class have the same shard at each member.
  std::uint32_t classes_ = 1;
  std::vector<Loads> loads_;
  // Of whom, and of which class, nothing can be exchanged; by Shards.
  std::array<std::set<std::pair<MemberIndex, std::uint32_t>>, 2> in_vain_;
};

}  // namespace

void part_mirrors(const std::vector<MapMember>& members, std::vector<MemberIndex>& owners) {
  if (members.size() > 1) Parting(members, owners).run();
}

}  // namespace simm::cluster
