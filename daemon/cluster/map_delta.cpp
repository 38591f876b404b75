#include "daemon/cluster/map_delta.h"

#include <map>
#include <utility>

namespace simm::cluster {
namespace {

Error bad_delta(std::string what) {
  return Error{Status::invalid_argument, "map delta: " + std::move(what)};
}

// What the base says of a slot, with the indices of the new map.
SlotOwner carried(const SlotOwner& owner, const std::vector<MemberIndex>& moved) {
  if (owner.member == kNoMember || moved[owner.member] == kNoMember) return {};
  return {moved[owner.member], owner.since};
}

}  // namespace

MapDelta delta_of(const SlotMap& before, const SlotMap& now) {
  MapDelta delta{before.epoch(),
                 before.digest(),
                 now.epoch(),
                 now.digest(),
                 now.life(),
                 now.follows(),
                 {},
                 {},
                 {}};
  std::map<Incarnation, MemberIndex> known;
  for (std::size_t i = 0; i < before.members().size(); ++i) {
    known[before.members()[i].identity.incarnation] = static_cast<MemberIndex>(i);
  }
  std::vector<MemberIndex> moved(before.members().size(), kNoMember);
  for (std::size_t i = 0; i < now.members().size(); ++i) {
    const MapMember& member = now.members()[i];
    const auto found = known.find(member.identity.incarnation);
    if (found != known.end() && before.members()[found->second] == member) {
      moved[found->second] = static_cast<MemberIndex>(i);
      delta.members.push_back(found->second);
    } else {
      delta.members.push_back(kNoMember);
      delta.fresh.push_back(member);
    }
  }
  for (std::size_t slot = 0; slot < now.owners().size(); ++slot) {
    const SlotOwner& owner = now.owners()[slot];
    if (carried(before.owners()[slot], moved) == owner) continue;
    delta.slots.push_back({static_cast<base::Slot>(slot), owner});
  }
  return delta;
}

Expected<SlotMapPtr> apply(const MapDelta& delta, const SlotMap& before) {
  if (delta.base_epoch != before.epoch() || delta.base_digest != before.digest()) {
    return Error{Status::invalid_state, "map delta: it is about another map, of epoch " +
                                            std::to_string(delta.base_epoch)};
  }
  std::vector<MapMember> members;
  std::vector<MemberIndex> moved(before.members().size(), kNoMember);
  auto fresh = delta.fresh.begin();
  for (const MemberIndex index : delta.members) {
    if (index != kNoMember && index >= before.members().size()) {
      return bad_delta("member " + std::to_string(index) + " of the base");
    }
    if (index == kNoMember && fresh == delta.fresh.end())
      return bad_delta("a member that is not there");
    if (index != kNoMember) moved[index] = static_cast<MemberIndex>(members.size());
    members.push_back(index == kNoMember ? *fresh++ : before.members()[index]);
  }
  std::vector<SlotOwner> owners;
  owners.reserve(before.owners().size());
  for (const SlotOwner& owner : before.owners()) owners.push_back(carried(owner, moved));
  for (const SlotChange& change : delta.slots) {
    if (change.slot >= owners.size()) return bad_delta("slot " + std::to_string(change.slot));
    owners[change.slot] = change.owner;
  }
  auto made =
      SlotMap::make(delta.epoch, std::move(members), std::move(owners), delta.life, delta.follows);
  if (!made) return std::move(made).error();
  if (made.value()->digest() != delta.digest) return bad_delta("its result is another map");
  return made;
}

}  // namespace simm::cluster
