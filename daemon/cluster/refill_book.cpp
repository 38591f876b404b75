#include "daemon/cluster/refill_book.h"

#include "daemon/base/replica.h"

namespace simm::cluster {
namespace {

bool is_there(const SlotMap& map, const MapMember* member) {
  return member != nullptr && map.find(member->identity.incarnation).has_value();
}

// Whether the mirror's owner may lack copies of what is in the slot, or comes into it.
bool lacks_copies(const SlotMap& map, const SlotMap& before, base::Slot slot) {
  const base::Slot mirror = base::mirror_of(slot);
  // Whoever had the slot may not have given its copies away yet.
  if (map.since(slot) > before.epoch()) return is_there(map, before.owner_of(slot));
  if (map.refilled_since(mirror) <= before.epoch()) return false;
  const bool is_back = map.since(mirror) <= before.epoch();
  const bool was_lone = before.owner(slot) == before.owner(mirror);
  return is_back || was_lone || !is_there(map, before.owner_of(mirror));
}

}  // namespace

bool RefillBook::use(const SlotMap& map, const SlotMap* before) {
  const auto me = map.find(self_);
  bool more = false;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const base::Slot mirror = base::mirror_of(slot);
    const bool is_mine = me && map.owner(slot) == *me;
    const bool is_others = is_mine && map.owner(mirror) != kNoMember && map.owner(mirror) != *me;
    const base::Epoch into = map.refilled_since(mirror);
    if (all_ != nullptr && all_->departs(slot)) {
      if (is_others && map.since(slot) == all_->since[slot]) {
        // Whoever was to be given copies may have few of them to send on.
        more |= into != all_->next[slot];
        all_->begin(slot, map.since(slot), into);
        continue;
      }
      all_->end(slot);
    }
    const bool was_missed = map.since(slot) <= last_map_ && last_map_ < into;
    if (!is_others || !(before == nullptr ? was_missed : lacks_copies(map, *before, slot))) {
      continue;
    }
    if (all_ == nullptr) all_ = std::make_unique<base::SlotDepartures>();
    all_->begin(slot, map.since(slot), into);
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
