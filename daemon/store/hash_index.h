// HashIndex: from a 64-bit hash to candidate numbers. Open addressing with linear probing in 8-byte
// slots, at most half full, so a look-up is one cache line nearly always; deletion shifts the rest
// of the run back, so there are no tombstones and no rehash ever. It knows no keys: the caller
// compares. Thread: the data agent of the store.
#pragma once

#include <bit>
#include <cstdint>

#include "daemon/store/table.h"

namespace simm::store {

class HashIndex {
public:
  struct Slot {
    std::uint32_t tag;     // low half of the hash; its low bits are the home position
    std::uint32_t number;  // kNone: empty
  };
  static_assert(sizeof(Slot) == 8);

  static constexpr std::uint64_t slots_for(std::uint32_t entries) {
    return std::bit_ceil(std::uint64_t{2} * entries + 2);
  }
  static constexpr std::uint64_t bytes_for(std::uint32_t entries) {
    return slots_for(entries) * sizeof(Slot);
  }

  // `memory`: bytes_for(entries) zeroed bytes that outlive the index.
  HashIndex(void* memory, std::uint32_t entries) noexcept
      : slots_(static_cast<Slot*>(memory)), mask_(slots_for(entries) - 1) {}

  void prefetch(std::uint64_t hash) const noexcept { __builtin_prefetch(&slots_[hash & mask_]); }

  // The first entry of this hash for which `matches(number)`; kNone when there is none.
  template <typename Matches>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, Matches&& matches) const noexcept {
    const auto tag = static_cast<std::uint32_t>(hash);
    for (std::uint64_t at = tag & mask_; slots_[at].number != kNone; at = (at + 1) & mask_) {
      if (slots_[at].tag == tag && matches(slots_[at].number)) return slots_[at].number;
    }
    return kNone;
  }

  void insert(std::uint64_t hash, std::uint32_t number) noexcept;
  void remove(std::uint64_t hash, std::uint32_t number) noexcept;
  // Makes the entry of `old_number` name `new_number`: one store, nobody sees neither.
  void replace(std::uint64_t hash, std::uint32_t old_number, std::uint32_t new_number) noexcept;

  [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; }
  // Recounts, and proves that each entry can be found; for tests.
  [[nodiscard]] const char* audit() const noexcept;

private:
  [[nodiscard]] std::uint64_t position_of(std::uint64_t hash, std::uint32_t number) const noexcept;

  Slot* slots_;
  std::uint64_t mask_;
  std::uint64_t entries_ = 0;
};

}  // namespace simm::store
