#include "daemon/cluster/peer_table.h"

namespace simm::cluster {

PeerTable::PeerTable(const Incarnation& self) : self_(self) {}

PeerTable::Change PeerTable::use(const SlotMap& map) {
  Change change;
  for (auto at = ids_.begin(); at != ids_.end();) {
    if (map.find(at->first)) {
      ++at;
      continue;
    }
    change.removed.push_back(at->second);
    peers_.erase(at->second.value);
    at = ids_.erase(at);
  }
  for (const MapMember& member : map.members()) {
    if (member.identity.incarnation == self_) continue;
    const auto [found, fresh] = ids_.try_emplace(member.identity.incarnation);
    bool moved = false;
    if (!fresh) {
      const MapMember& before = peers_.at(found->second.value);
      moved = before.address != member.address || before.port != member.port;
    }
    if (moved) {
      change.removed.push_back(found->second);
      peers_.erase(found->second.value);
    }
    if (fresh || moved) {
      if (free_.empty()) free_.push_back(base::PeerId{next_++});
      found->second = free_.back();
      free_.pop_back();
      change.added.push_back(found->second);
    }
    peers_[found->second.value] = member;
  }
  return change;
}

void PeerTable::release(base::PeerId removed) {
  free_.push_back(removed);
}

base::PeerId PeerTable::find(const Incarnation& incarnation) const noexcept {
  if (incarnation == self_) return base::kSelf;
  const auto found = ids_.find(incarnation);
  return found == ids_.end() ? kNoPeer : found->second;
}

const MapMember* PeerTable::who(base::PeerId peer) const noexcept {
  const auto found = peers_.find(peer.value);
  return found == peers_.end() ? nullptr : &found->second;
}

}  // namespace simm::cluster
