#include "daemon/store/hash_index.h"

#include "simm/check.h"

namespace simm::store {

void HashIndex::insert(std::uint64_t hash, std::uint32_t number) noexcept {
  SIMM_CHECK(entries_ * 2 < mask_ + 1);
  const auto tag = static_cast<std::uint32_t>(hash);
  std::uint64_t at = tag & mask_;
  while (slots_[at].number != kNone) at = (at + 1) & mask_;
  slots_[at] = {tag, number};
  ++entries_;
}

std::uint64_t HashIndex::position_of(std::uint64_t hash, std::uint32_t number) const noexcept {
  std::uint64_t at = static_cast<std::uint32_t>(hash) & mask_;
  while (slots_[at].number != number) {
    SIMM_CHECK(slots_[at].number != kNone);
    at = (at + 1) & mask_;
  }
  return at;
}

void HashIndex::replace(std::uint64_t hash, std::uint32_t old_number,
                        std::uint32_t new_number) noexcept {
  slots_[position_of(hash, old_number)].number = new_number;
}

void HashIndex::remove(std::uint64_t hash, std::uint32_t number) noexcept {
  std::uint64_t hole = position_of(hash, number);
  for (std::uint64_t at = (hole + 1) & mask_; slots_[at].number != kNone; at = (at + 1) & mask_) {
    // An entry may move back to the hole when that is not in front of its home.
    const std::uint64_t from_home = (at - slots_[at].tag) & mask_;
    const std::uint64_t from_hole = (at - hole) & mask_;
    if (from_home < from_hole) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
  --entries_;
}

const char* HashIndex::audit() const noexcept {
  std::uint64_t entries = 0;
  for (std::uint64_t at = 0; at <= mask_; ++at) {
    if (slots_[at].number == kNone) continue;
    ++entries;
    for (std::uint64_t on_way = slots_[at].tag & mask_; on_way != at;
         on_way = (on_way + 1) & mask_) {
      if (slots_[on_way].number == kNone) return "an index entry is cut off from its home";
    }
  }
  return entries == entries_ ? nullptr : "index entries do not add up";
}

}  // namespace simm::store
