// GhostTable: how often groups had been used when they were evicted, for some multiple of the
// groups that are there: one that comes back is known (the idea of ARC's and 2Q's ghost lists:
// Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", 2003; Johnson and
// Shasha, 1994). Sets have sixteen entries, newest first; what does not fit is forgotten. A tenant
// that has its part of the set loses its own oldest: no tenant's ghosts are pushed out by one that
// loses more. A mistaken identity (one in 65,000 look-ups) costs a wrong count, nothing else.
//
// Address space for the largest number of groups is taken at once. Only a part that fits the groups
// of now is used: four to eight entries of four bytes for each. Thread: the data agent of the
// store.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/store/space/reserved_memory.h"
#include "simm/expected.h"

namespace simm::store {

class GhostTable {
public:
  // Fails when the address space is refused.
  static Expected<GhostTable> create(std::uint32_t groups_max);

  static constexpr std::uint32_t kWays = 16;     // of a set: a cache line
  static constexpr std::uint8_t kUsesMost = 31;  // more are remembered as so many

  // uses > 0; replaces what is known of the same group. `ways`: the account's part of a set, 1 to
  // kWays.
  void put(std::uint64_t hash, std::uint32_t account, std::uint8_t uses,
           std::uint32_t ways) noexcept;
  // Forgets it as well. 0: not known.
  std::uint8_t take(std::uint64_t hash, std::uint32_t account) noexcept;
  // Makes room for that many groups; never shrinks. When it grows, half of the ghosts get lost.
  void fit(std::uint32_t groups) noexcept;

private:
  // 20 bits of hash, 7 of the account's number, 5 of uses; 0: empty. The entries in use are the
  // first ones.
  using Set = std::array<std::uint32_t, kWays>;
  static constexpr std::uint64_t kSetsMin = 64;

  GhostTable(ReservedMemory memory, std::uint64_t sets_max) noexcept;
  static std::uint64_t sets_for(std::uint32_t groups) noexcept;
  [[nodiscard]] Set& set_of(std::uint64_t hash) noexcept { return sets_[hash & (used_sets_ - 1)]; }
  static std::uint32_t place_for(const Set& set, std::uint32_t tag, std::uint32_t ways) noexcept;
  static std::uint32_t tag_of(std::uint64_t hash, std::uint32_t account) noexcept {
    return static_cast<std::uint32_t>(hash >> 44) << 12 | (account & 0x7f) << 5;
  }

  ReservedMemory memory_;
  Set* sets_;
  std::uint64_t sets_max_;
  std::uint64_t used_sets_ = kSetsMin;
};

}  // namespace simm::store
