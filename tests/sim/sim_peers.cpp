#include "tests/sim/sim_peers.h"

#include <utility>

namespace simm::sim {

void SimPeers::serve(NodeEnd& end) {
  end_ = &end;
  end.resolve = [this](base::PeerId peer) {
    const auto found = serials_.find(peer);
    return found == serials_.end() ? std::uint32_t{0} : found->second;
  };
}

void SimPeers::use(const cluster::SlotMap& map) {
  const cluster::PeerTable::Change change = table_.use(map);
  for (const base::PeerId peer : change.added) {
    const cluster::MapMember& member = *table_.who(peer);
    serials_[peer] = static_cast<std::uint32_t>(member.identity.incarnation.low);
    end_->add_peer(peer, member.shards);
  }
  for (const base::PeerId peer : change.removed) end_->drop_peer(peer);
  removed_.insert(removed_.end(), change.removed.begin(), change.removed.end());
}

void SimPeers::release() {
  std::vector<base::PeerId> busy;
  for (const base::PeerId peer : removed_) {
    if (!end_->is_rid_of(peer)) {
      busy.push_back(peer);
      continue;
    }
    serials_.erase(peer);
    table_.release(peer);
  }
  removed_ = std::move(busy);
}

}  // namespace simm::sim
