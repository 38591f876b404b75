// MapPlacement: a SlotMap as an engine sees it: for each slot the peer, and the shard of it. Made
// on the control thread, handed to the data agents, immutable. Before there is a map, and for slots
// that nobody owns, the route leads to kNoPeer. Thread: any.
#pragma once

#include <vector>

#include "daemon/cluster/peer_table.h"
#include "daemon/engine/placement.h"

namespace simm::cluster {

class MapPlacement final : public engine::Placement {
public:
  // No map yet: epoch 0, which no server has.
  MapPlacement();
  // `peers` has seen the map (PeerTable::use).
  MapPlacement(const SlotMap& map, const PeerTable& peers);

  [[nodiscard]] base::Epoch epoch() const noexcept override { return epoch_; }
  [[nodiscard]] transport::Route route(base::Slot slot) const noexcept override {
    return routes_[slot];
  }

private:
  base::Epoch epoch_ = 0;
  std::vector<transport::Route> routes_;  // by slot
};

}  // namespace simm::cluster
