#include "daemon/cluster/departure_book.h"

namespace simm::cluster {

bool DepartureBook::use(const SlotMap& map, const SlotMap* before) {
  const bool is_next = before != nullptr && map.follows() != 0 && map.follows() == before->digest();
  const auto me = before == nullptr ? std::nullopt : before->find(self_);
  bool more = false;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const MapMember* const owner = map.owner_of(slot);
    const bool is_others = owner != nullptr && owner->identity.incarnation != self_;
    if (all_ != nullptr && all_->departs(slot)) {
      if (!is_others || map.since(slot) != all_->next[slot]) all_->end(slot);
      continue;
    }
    const bool was_mine = is_next && me && before->owner(slot) == *me;
    if (!was_mine || !is_others || map.since(slot) != map.epoch()) continue;
    if (all_ == nullptr) all_ = std::make_unique<base::SlotDepartures>();
    all_->begin(slot, before->since(slot), map.epoch());
    more = true;
  }
  if (slots() == 0) all_.reset();
  return more;
}

std::unique_ptr<base::SlotDepartures> DepartureBook::of_shard(std::uint16_t shard,
                                                              std::uint16_t shards) const {
  return all_ == nullptr ? nullptr : all_->of_shard(shard, shards);
}

bool DepartureBook::has_target(const SlotMap& map, const Incarnation& member) const {
  const auto there = map.find(member);
  if (all_ == nullptr || !there) return false;
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (all_->since[slot] != 0 && map.owners()[slot].member == *there) return true;
  }
  return false;
}

}  // namespace simm::cluster
