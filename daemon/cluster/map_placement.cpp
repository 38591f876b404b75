#include "daemon/cluster/map_placement.h"

namespace simm::cluster {

MapPlacement::MapPlacement() : routes_(base::kSlotCount, transport::Route{kNoPeer, 0}) {}

MapPlacement::MapPlacement(const SlotMap& map, const PeerTable& peers) : MapPlacement() {
  epoch_ = map.epoch();
  std::vector<base::PeerId> ids;
  for (const MapMember& member : map.members()) {
    ids.push_back(peers.find(member.identity.incarnation));
  }
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const MemberIndex owner = map.owner(static_cast<base::Slot>(i));
    if (owner == kNoMember) continue;
    routes_[i] = {ids[owner], static_cast<std::uint16_t>(i % map.members()[owner].shards)};
  }
}

}  // namespace simm::cluster
