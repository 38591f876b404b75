// What a map means for one shard of one daemon: which slots it serves, and since when. Thread: any.
#pragma once

#include "daemon/base/slot_ownership.h"
#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

// Slots of `self` that are served by `shard`; none when the map does not know `self`. The caller
// provides the room: it is too large for a stack.
void fill_ownership(base::SlotOwnership& ownership, const SlotMap& map, const Incarnation& self,
                    std::uint16_t shard);

}  // namespace simm::cluster
