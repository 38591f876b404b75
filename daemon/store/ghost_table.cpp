#include "daemon/store/ghost_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace simm::store {

namespace {

constexpr std::uint32_t kUsesMask = 0xff;

}  // namespace

std::uint64_t GhostTable::sets_for(std::uint32_t groups) noexcept {
  return std::max(kSetsMin, std::bit_ceil((std::uint64_t{groups} + 3) / 4));
}

Expected<GhostTable> GhostTable::create(std::uint32_t groups_max) {
  const std::uint64_t sets = sets_for(groups_max);
  auto memory = ReservedMemory::map(sets * sizeof(Set));
  if (!memory) return std::move(memory).error();
  return GhostTable(std::move(memory).value(), sets);
}

GhostTable::GhostTable(ReservedMemory memory, std::uint64_t sets_max) noexcept
    : memory_(std::move(memory)),
      // SAFETY: page-aligned zeroed memory of sets_max sets, and all zeros is an empty set.
      sets_(reinterpret_cast<Set*>(memory_.data())),
      sets_max_(sets_max) {}

void GhostTable::put(std::uint64_t hash, std::uint8_t uses) noexcept {
  std::uint32_t moving = tag_of(hash) | uses;
  const std::uint32_t tag = tag_of(hash);
  for (std::uint32_t& entry : set_of(hash)) {
    std::swap(entry, moving);
    if (moving == 0 || (moving & ~kUsesMask) == tag) return;
  }
}

std::uint8_t GhostTable::take(std::uint64_t hash) noexcept {
  Set& set = set_of(hash);
  const std::uint32_t tag = tag_of(hash);
  for (std::uint32_t i = 0; i < kWays && set[i] != 0; ++i) {
    if ((set[i] & ~kUsesMask) != tag) continue;
    const auto uses = static_cast<std::uint8_t>(set[i] & kUsesMask);
    std::copy(set.begin() + i + 1, set.end(), set.begin() + i);
    set.back() = 0;
    return uses;
  }
  return 0;
}

void GhostTable::fit(std::uint32_t groups) noexcept {
  used_sets_ = std::max(used_sets_, std::min(sets_for(groups), sets_max_));
}

}  // namespace simm::store
