#include "daemon/cluster/map_placement.h"

namespace simm::cluster {

MapPlacement::MapPlacement() : routes_(base::kSlotCount, transport::Route{kNoPeer, 0}) {}

MapPlacement::MapPlacement(const SlotMap& map, const PeerTable& peers) : MapPlacement() {
  epoch_ = map.epoch();
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const MapMember* owner = map.owner_of(static_cast<base::Slot>(i));
    if (owner == nullptr) continue;
    routes_[i] = {peers.find(owner->identity.incarnation),
                  static_cast<std::uint16_t>(i % owner->shards)};
  }
}

}  // namespace simm::cluster
