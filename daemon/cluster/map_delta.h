// MapDelta: what differs between two slot maps. A map of 1,024 members has 150 to 170 KB, and most
// changes touch one member. So a daemon that has the map before the newest one is sent the
// difference.
//
// A delta names its base by epoch and digest, and its result by its digest. It is applied to that
// base and to nothing else. A daemon with another map asks for the whole one (Heartbeat). Immutable
// values. Thread: any.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/cluster/slot_map.h"
#include "simm/expected.h"

namespace simm::cluster {

struct SlotChange {
  base::Slot slot = 0;
  SlotOwner owner;  // in the new map
  bool operator==(const SlotChange&) const = default;
};

struct MapDelta {
  base::Epoch base_epoch = 0;
  std::uint64_t base_digest = 0;  // SlotMap::digest()
  base::Epoch epoch = 0;          // of the new map; so are all that follow
  std::uint64_t digest = 0;
  MapLife life;
  std::uint64_t follows = 0;  // SlotMap::follows()
  // Of each member of the new map: its index in the base; kNoMember: it is the next one of `fresh`.
  std::vector<MemberIndex> members;
  std::vector<MapMember> fresh;
  // Slots whose owner or tenure is not that of the base, by number.
  std::vector<SlotChange> slots;
  bool operator==(const MapDelta&) const = default;
};

[[nodiscard]] MapDelta delta_of(const SlotMap& before, const SlotMap& now);

// invalid_state: `before` is another map than the one that the delta is about. invalid_argument:
// the result is no map, or not the one that was meant.
Expected<SlotMapPtr> apply(const MapDelta& delta, const SlotMap& before);

}  // namespace simm::cluster
