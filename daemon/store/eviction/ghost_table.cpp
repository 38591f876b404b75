#include "daemon/store/eviction/ghost_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace simm::store {

namespace {

constexpr std::uint32_t kUsesMask = 0x1f;
constexpr std::uint32_t kAccountMask = 0x7f << 5;

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

// The place that is given up: of the same group; of the account's oldest when it has its part; an
// empty one; or of the others' oldest.
std::uint32_t GhostTable::place_for(const Set& set, std::uint32_t tag,
                                    std::uint32_t ways) noexcept {
  std::uint32_t own = 0;
  std::uint32_t oldest_own = 0;
  std::uint32_t oldest_other = 0;
  std::uint32_t place = 0;
  for (; place < kWays && set[place] != 0; ++place) {
    if ((set[place] & ~kUsesMask) == tag) return place;
    const bool is_own = (set[place] & kAccountMask) == (tag & kAccountMask);
    own += is_own ? 1 : 0;
    (is_own ? oldest_own : oldest_other) = place;
  }
  if (own >= ways) return oldest_own;
  return place < kWays ? place : oldest_other;
}

void GhostTable::put(std::uint64_t hash, std::uint32_t account, std::uint8_t uses,
                     std::uint32_t ways) noexcept {
  Set& set = set_of(hash);
  const std::uint32_t tag = tag_of(hash, account);
  const std::uint32_t place = place_for(set, tag, ways);
  std::copy_backward(set.begin(), set.begin() + place, set.begin() + place + 1);
  set.front() = tag | std::min(uses, kUsesMost);
}

std::uint8_t GhostTable::take(std::uint64_t hash, std::uint32_t account) noexcept {
  Set& set = set_of(hash);
  const std::uint32_t tag = tag_of(hash, account);
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
