// part_mirrors: gives mirrored slots (base/replica.h) to different members, so that the two copies
// of an object are not at one daemon. Where both slots of a pair have one owner, one of them is
// exchanged for a slot of another member. That leaves every member as many slots as before, and
// every shard too. Where no such slot is left, shards stay as even as shard_loads.h asks. A member
// that owns more than half of all slots keeps pairs; so does a cluster of one.
// Thread: the builder's.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

// `owners`: of each slot, kNoMember among them; changed. Same arguments, same owners.
void part_mirrors(const std::vector<MapMember>& members, std::vector<MemberIndex>& owners);

}  // namespace simm::cluster
