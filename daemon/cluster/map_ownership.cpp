#include "daemon/cluster/map_ownership.h"

namespace simm::cluster {

void fill_ownership(base::SlotOwnership& ownership, const SlotMap& map, const Incarnation& self,
                    std::uint16_t shard) {
  ownership.epoch = map.epoch();
  ownership.has_former_owners = map.follows() != 0;
  const std::optional<MemberIndex> me = map.find(self);
  ownership.back_since = me ? map.members()[*me].back_since : 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const bool mine = me && map.owner(slot) == *me && i % map.members()[*me].shards == shard;
    ownership.since[i] = mine ? map.since(slot) : 0;
  }
}

}  // namespace simm::cluster
