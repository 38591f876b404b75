// SlotMap: which member owns each of the 16,384 slots, under an epoch. Made by the manager
// (slot_map_builder.h), pushed to every daemon, never changed: a new state of the cluster is a new
// map with a greater epoch.
//
// `since` of a slot is the epoch from which on its owner has owned it without a break. So a daemon
// that missed some maps knows which objects it may keep: those of slots that were its own in the
// last map that it knew, and have been since (map_ownership.h).
//
// Immutable, shared by pointer. Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/cluster/hello/daemon_identity.h"
#include "daemon/cluster/lineage.h"
#include "simm/expected.h"

namespace simm::cluster {

inline constexpr std::uint32_t kMembersMax = 1024;  // that own slots
inline constexpr std::size_t kAddressBytesMax = 255;
// So that slots times weight, and the sum of all weights, stay inside 64 bits.
inline constexpr std::uint64_t kWeightBytesMax = std::uint64_t{1} << 48;
// A member asks for no more: its slots serve nobody meanwhile.
inline constexpr std::uint32_t kMemberGraceMsMax = 300'000;
// Of any map. A manager takes over no map above the half of it, so it never runs out of them.
inline constexpr base::Epoch kEpochMax = base::Epoch{1} << 62;

// Index into SlotMap::members().
using MemberIndex = std::uint16_t;
inline constexpr MemberIndex kNoMember = 0xffff;

struct MapMember {
  DaemonIdentity identity;
  std::string address;  // of its data listener: a numeric IP address, or a name
  std::uint16_t port = 0;
  std::uint16_t shards = 1;        // slot s is served by shard s % shards
  std::uint64_t weight_bytes = 0;  // capacity: its share of the slots
  // How long it may be away before its slots move, where the manager's own time is shorter. A large
  // pool takes long to die and to come back. In the map, so that every manager keeps to it.
  std::uint32_t grace_ms = 0;
  // The first map behind its last absence, in which others may have written without it; 0: it was
  // never away. What is kept twice is offered to it anew (refill_book.h).
  base::Epoch back_since = 0;

  bool operator==(const MapMember&) const = default;
};

struct SlotOwner {
  MemberIndex member = kNoMember;
  base::Epoch since = 0;

  bool operator==(const SlotOwner&) const = default;
};

class SlotMap {
public:
  // invalid_argument, with the field at fault, for anything that no builder makes: the content may
  // come from a wire or a file. `owners` has kSlotCount entries.
  static Expected<std::shared_ptr<const SlotMap>> make(base::Epoch epoch,
                                                       std::vector<MapMember> members,
                                                       std::vector<SlotOwner> owners,
                                                       MapLife life = {},
                                                       std::uint64_t follows = 0);

  [[nodiscard]] base::Epoch epoch() const noexcept { return epoch_; }
  [[nodiscard]] const MapLife& life() const noexcept { return life_; }
  // Of epoch, members and owners; never 0. Two maps of one epoch that differ are told apart by it.
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }
  // Digest of the map that was in force until this one, so that nobody owned a slot in between; 0:
  // its manager can not say. Like the lineage it is no part of what digest() covers.
  [[nodiscard]] std::uint64_t follows() const noexcept { return follows_; }
  [[nodiscard]] const std::vector<MapMember>& members() const noexcept { return members_; }
  [[nodiscard]] const std::vector<SlotOwner>& owners() const noexcept { return owners_; }

  [[nodiscard]] MemberIndex owner(base::Slot slot) const noexcept { return owners_[slot].member; }
  [[nodiscard]] base::Epoch since(base::Slot slot) const noexcept { return owners_[slot].since; }
  // Since when the owner of the slot remembers which keys are removed there, where it is given
  // second copies; 0: nobody owns it.
  [[nodiscard]] base::Epoch refilled_since(base::Slot slot) const noexcept {
    const MapMember* const member = owner_of(slot);
    return member == nullptr ? 0 : std::max(since(slot), member->back_since);
  }
  // Null: nobody owns it.
  [[nodiscard]] const MapMember* owner_of(base::Slot slot) const noexcept {
    return owner(slot) == kNoMember ? nullptr : &members_[owner(slot)];
  }
  [[nodiscard]] std::uint32_t slot_count(MemberIndex member) const noexcept {
    return slot_counts_[member];
  }
  [[nodiscard]] std::optional<MemberIndex> find(const Incarnation& incarnation) const noexcept;

  // What was so under the map of `epoch` of that lineage says nothing here: another manager has
  // made it, and this one did not know it. An unknown lineage is taken for the same.
  [[nodiscard]] bool is_of_another_life(const Lineage& lineage, base::Epoch epoch) const noexcept;

  // Whoever routes by either does the same.
  [[nodiscard]] bool routes_as(const SlotMap& other) const {
    return epoch_ == other.epoch_ && members_ == other.members_ && owners_ == other.owners_;
  }
  bool operator==(const SlotMap& other) const {
    return routes_as(other) && life_ == other.life_ && follows_ == other.follows_;
  }

private:
  SlotMap(base::Epoch epoch, std::vector<MapMember> members, std::vector<SlotOwner> owners,
          MapLife life, std::uint64_t follows);

  base::Epoch epoch_;
  MapLife life_;
  std::uint64_t digest_;
  std::uint64_t follows_;
  std::vector<MapMember> members_;
  std::vector<SlotOwner> owners_;
  std::vector<std::uint32_t> slot_counts_;   // by member
  std::vector<MemberIndex> by_incarnation_;  // members_ in that order
};

using SlotMapPtr = std::shared_ptr<const SlotMap>;

// "storage/rack1-host7": what a member is called in every map, whatever its incarnation.
std::string full_name(const DaemonIdentity& identity);

// Only of printable ASCII: fit for logs, JSON and terminals without quoting. Names, addresses and
// whatever else a peer says of itself.
[[nodiscard]] bool is_printable(std::string_view text) noexcept;

// Checks the fields of one member; the error names the one at fault.
Outcome check_member(const MapMember& member);
// And those of all members of a map together.
Outcome check_members(const std::vector<MapMember>& members);

}  // namespace simm::cluster
