// OwnedSlots: the slots of a shard under the newest map that its server got, and since when it owns
// each. A page is served to one who asks under an older map if the shard has owned the page's slot
// ever since that map: then there has been no other owner in between.
// Owned by the Server. Thread: its data agent.
#pragma once

#include "daemon/base/slot_ownership.h"

namespace simm::server {

class OwnedSlots {
public:
  // True: a slot was lost, or was lost and has come back. Objects of an earlier life may be of any
  // slot, so the first map says so as well. A map that is older than the last one is ignored.
  bool use(const base::SlotOwnership& map) noexcept;

  // Whether a page of that group may be served to one who asks under the map `asked`, which is not
  // newer than ours.
  [[nodiscard]] bool serves(base::Epoch asked, std::uint64_t group) const noexcept {
    const base::Slot slot = base::slot_of(group);
    return asked == map_.epoch ? owned_[slot] : map_.owns_since(slot, asked);
  }

  // 0: there has been no map.
  [[nodiscard]] base::Epoch epoch() const noexcept { return map_.epoch; }
  [[nodiscard]] const base::SlotOwnership& map() const noexcept { return map_; }

private:
  base::SlotOwnership map_;
  base::SlotSet owned_;  // the same in 2 KiB, for the look at every page
};

}  // namespace simm::server
