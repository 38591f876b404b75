// ShardLoads: how many slots each shard of each member has while a map is being made. A slot's
// shard follows from its number (slot % shards), in every release. So the builder keeps the shards
// of a member even by its choice of the slots.
//
// Owned by the map's builder, beside the owners of slots that it changes. Thread: the builder's.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

class ShardLoads {
public:
  // Up to where a shard takes slots; its part is the member's slots divided by the shards.
  enum class Limit : std::uint8_t {
    part_rounded_down,
    part_rounded_up,
    tolerated,  // a little more than its part: what a shard has already, it may keep up to here
    none,       // whatever the member still lacks
  };

  // `targets`: how many slots each member is to have; together all slots. `owners`: of each slot,
  // kNoMember among them; changed by take(), give() and exchange(), and by nobody else meanwhile.
  ShardLoads(const std::vector<MapMember>& members, const std::vector<std::uint32_t>& targets,
             std::vector<MemberIndex>& owners);

  [[nodiscard]] bool has_room(MemberIndex member, std::uint32_t slot, Limit limit) const noexcept {
    return has_room_in(shard_of(member, slot), members_[member], limit);
  }
  // For one slot at least. Who has none for any does not get some when others are given slots.
  [[nodiscard]] bool has_any_room(MemberIndex member, Limit limit) const noexcept;
  // The member, or one of its shards, has more than it may keep.
  [[nodiscard]] bool has_too_much(MemberIndex member) const noexcept;
  // Of an owned slot: its shard has more than is tolerated.
  [[nodiscard]] bool is_above_limit(std::uint32_t slot) const noexcept;
  // Of an owned slot: its member has too many, and its shard can do without one.
  [[nodiscard]] bool is_surplus(std::uint32_t slot) const noexcept;

  // The owner loses the slot.
  void take(std::uint32_t slot) noexcept;
  // A slot that nobody owns.
  void give(std::uint32_t slot, MemberIndex member) noexcept;

  // Slots that nobody owns push others on where no shard with room is left: from member to member,
  // by the shortest chain, until one finds room (augmenting paths: Edmonds and Karp,
  // "Theoretical improvements in algorithmic efficiency for network flow problems", 1972). Gives up
  // after a bounded amount of work.
  void exchange();

private:
  friend class ExchangeChains;

  struct Member {
    std::uint32_t shards = 1;
    std::uint32_t first = 0;  // its first shard in loads_
    std::uint32_t part_down = 0;
    std::uint32_t part_up = 0;
    std::uint32_t tolerated_least = 0;  // kept free for each shard
    std::uint32_t tolerated_most = 0;
    std::int64_t missing = 0;  // slots; below 0: it has too many
    std::int64_t spare = 0;    // slots that its shards may take beyond tolerated_least
  };

  [[nodiscard]] std::uint32_t shard_of(MemberIndex member, std::uint32_t slot) const noexcept {
    return members_[member].first + slot % members_[member].shards;
  }

  [[nodiscard]] bool has_room_in(std::uint32_t shard, const Member& of,
                                 Limit limit) const noexcept {
    if (limit == Limit::none) return of.missing > 0;
    const std::uint32_t load = loads_[shard];
    if (load < of.tolerated_least) return true;
    if (of.spare <= 0) return false;
    if (limit == Limit::part_rounded_down) return load < of.part_down;
    return load < (limit == Limit::part_rounded_up ? of.part_up : of.tolerated_most);
  }

  std::vector<MemberIndex>& owners_;  // by slot
  std::vector<Member> members_;
  std::vector<std::uint32_t> loads_;  // slots, by shard of all members
};

}  // namespace simm::cluster
