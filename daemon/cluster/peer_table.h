// PeerTable: the small numbers by which data agents know other daemons. One number belongs to one
// incarnation at one address. After its end nobody else gets the number until its user says that
// nothing refers to it any more. Number 0 is this daemon itself. Thread: the control thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

// Nobody: no transport leads there.
inline constexpr base::PeerId kNoPeer{0xffff'fffe};

class PeerTable {
public:
  struct Change {
    std::vector<base::PeerId> added;  // to be dialled: who() tells whom
    std::vector<base::PeerId>
        removed;  // not in the map any more, or elsewhere: drop their links, then release()
  };

  explicit PeerTable(const Incarnation& self);

  // A map is going to be used. Peers that it names are there afterwards.
  Change use(const SlotMap& map);
  // Nothing refers to a removed peer any more.
  void release(base::PeerId removed);

  // kNoPeer: unknown.
  [[nodiscard]] base::PeerId find(const Incarnation& incarnation) const noexcept;
  // Null: no such peer, or it has been removed, or it is this daemon.
  [[nodiscard]] const MapMember* who(base::PeerId peer) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return peers_.size(); }

private:
  const Incarnation self_;
  std::map<Incarnation, base::PeerId> ids_;
  std::map<std::uint32_t, MapMember> peers_;  // by number
  std::vector<base::PeerId> free_;
  std::uint32_t next_ = 1;
};

}  // namespace simm::cluster
