#include "daemon/cluster/refill_book.h"

#include "daemon/base/replica.h"

namespace simm::cluster {

bool RefillBook::use(const SlotMap& map, const SlotMap* before) {
  const auto me = map.find(self_);
  bool more = false;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const base::Slot mirror = base::mirror_of(slot);
    const bool is_mine = me && map.owner(slot) == *me;
    const bool is_others = is_mine && map.owner(mirror) != kNoMember && map.owner(mirror) != *me;
    if (all_ != nullptr && all_->departs(slot)) {
      if (is_others && map.since(slot) == all_->since[slot]) {
        // Whoever was to be given copies may have few of them to send on.
        more |= map.since(mirror) != all_->next[slot];
        all_->begin(slot, map.since(slot), map.since(mirror));
        continue;
      }
      all_->end(slot);
    }
    if (before == nullptr || !is_others || map.since(slot) > before->epoch()) continue;
    if (map.since(mirror) <= before->epoch()) continue;
    const MapMember* const former = before->owner_of(mirror);
    if (former != nullptr && map.find(former->identity.incarnation)) continue;
    if (all_ == nullptr) all_ = std::make_unique<base::SlotDepartures>();
    all_->begin(slot, map.since(slot), map.since(mirror));
    more = true;
  }
  if (slots() == 0) all_.reset();
  return more;
}

std::unique_ptr<base::SlotDepartures> RefillBook::of_shard(std::uint16_t shard,
                                                           std::uint16_t shards) const {
  return all_ == nullptr ? nullptr : all_->of_shard(shard, shards);
}

bool RefillBook::has_target(const SlotMap& map, const Incarnation& member) const {
  const auto there = map.find(member);
  if (all_ == nullptr || !there) return false;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (all_->departs(slot) && map.owner(base::mirror_of(slot)) == *there) return true;
  }
  return false;
}

}  // namespace simm::cluster
