// RefillBook: which slots of a daemon have to give copies of their objects to the owners of their
// mirrors (base/replica.h), because whoever had those before has gone with the objects.
//
// A mirror is refilled when a new map gives it to another member, and its owner until then is not
// in that map any more. An owner that is still there sends its objects itself (DepartureBook). One
// that drains has left the map as if it were dead: both send, and what comes second is refused.
//
// It is refilled, too, when its owner was away and is back (MapMember::back_since), and when one
// member had both slots until then: that one had single copies. What comes in with a slot is always
// offered. Its former owner may not have been through with that, and what is there already, or
// would come too late, costs a few bytes.
//
// A refill ends when this daemon loses its slot, or gets the mirror too, or when all is sent. When
// the mirror goes to yet another member before that, the refill begins anew, into the new tenure.
//
// Owned by ClusterPresence, or a test. Thread: control.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/slot_departures.h"
#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

class RefillBook {
public:
  // `last_map`: epoch of the last one of an earlier process with these objects; kNoEarlierLife.
  static constexpr base::Epoch kNoEarlierLife = ~base::Epoch{0};
  explicit RefillBook(const Incarnation& self, base::Epoch last_map = kNoEarlierLife)
      : self_(self), last_map_(last_map) {}

  // The next map; `before`: the one that it replaces here, null for the first. True: more mirrors
  // are refilled than before.
  bool use(const SlotMap& map, const SlotMap* before);
  void clear() noexcept { all_.reset(); }

  [[nodiscard]] std::uint32_t slots() const noexcept { return all_ == nullptr ? 0 : all_->slots; }
  // Of that shard of this daemon's: `since`, when its slot became its own, `next`, when the mirror
  // became its owner's, or its owner is back. Null: there are none.
  [[nodiscard]] std::unique_ptr<base::SlotDepartures> of_shard(std::uint16_t shard,
                                                               std::uint16_t shards) const;
  // Whether that member of the map is given copies.
  [[nodiscard]] bool has_target(const SlotMap& map, const Incarnation& member) const;

private:
  const Incarnation self_;
  const base::Epoch last_map_;
  std::unique_ptr<base::SlotDepartures> all_;  // null: there are none
};

}  // namespace simm::cluster
