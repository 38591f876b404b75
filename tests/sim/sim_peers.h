// SimPeers: the daemons of the newest map that an engine asks, by their numbers, and what the
// network calls them. A number is kept until nothing is under way to its peer any more.
// Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "daemon/cluster/peer_table.h"
#include "daemon/cluster/slot_map.h"
#include "tests/sim/node_end.h"

namespace simm::sim {

class SimPeers {
public:
  explicit SimPeers(const cluster::Incarnation& self) : table_(self) {}

  // From here on `end`, which outlives the peers, finds the network's numbers here.
  void serve(NodeEnd& end);
  void use(const cluster::SlotMap& map);
  // Those that are in no map any more, once nothing is under way to them.
  void release();
  [[nodiscard]] const cluster::PeerTable& table() const { return table_; }

private:
  NodeEnd* end_ = nullptr;
  cluster::PeerTable table_;
  std::map<base::PeerId, std::uint32_t> serials_;  // until they are released
  std::vector<base::PeerId> removed_;              // not released yet
};

}  // namespace simm::sim
