// DepartureBook: which slots a daemon has lost so that their objects may move on to the new owner.
//
// A slot departs when one map follows directly on another (SlotMap::follows), this daemon owned
// it under the first, and another one owns it since the second. Then nobody has owned it in
// between, whatever maps were lost. Where the row has a gap nothing departs: the objects are
// dropped. A departure ends when the slot's tenure changes again, or when the move window is over.
//
// Owned by ClusterPresence, or a test. Thread: control.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/slot_departures.h"
#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

class DepartureBook {
public:
  explicit DepartureBook(const Incarnation& self) : self_(self) {}

  // The next map; `before`: the one that it replaces here, null for the first. True: more slots
  // depart than before.
  bool use(const SlotMap& map, const SlotMap* before);
  // The move window is over.
  void clear() noexcept { all_.reset(); }

  [[nodiscard]] std::uint32_t slots() const noexcept { return all_ == nullptr ? 0 : all_->slots; }
  // What departs from that shard of this daemon's; null: nothing does.
  [[nodiscard]] std::unique_ptr<base::SlotDepartures> of_shard(std::uint16_t shard,
                                                               std::uint16_t shards) const;
  // Whether objects move to that member of the map.
  [[nodiscard]] bool has_target(const SlotMap& map, const Incarnation& member) const;

private:
  const Incarnation self_;
  std::unique_ptr<base::SlotDepartures> all_;  // null: nothing departs
};

}  // namespace simm::cluster
