// RecoveryScan: which entries of a kept metadata table are to be believed. The scan changes
// nothing, and takes nothing for granted but that the memory is there. An entry counts under three
// conditions: its seal, place and key match their checks; it says what a store could have said; and
// no other entry claims any of its bytes. Two entries that claim the same bytes are both dropped:
// one of them lies.
//
// The payload is not looked at: whoever reads it first compares it with the digest.
// The entries are looked at by the threads of a crew, each with a range of its own. What later
// steps need of an entry is copied meanwhile, because each look at an entry is a wait for memory.
// Thread: any; made and used inside StoreRecovery.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/pool/crew_array.h"
#include "daemon/store/pool/index_fill.h"
#include "daemon/store/pool/recovery_crew.h"
#include "daemon/store/pool/recovery_loss.h"
#include "daemon/store/space/extent_allocator.h"
#include "daemon/store/space/table.h"

namespace simm::store {

class RecoveryScan {
public:
  struct Found {
    std::uint64_t order;  // what its list is sorted by: offset in the arena, or generation
    std::uint32_t number;
    std::uint32_t granules;

    [[nodiscard]] std::uint64_t extent_bytes() const noexcept {
      return granules * ExtentAllocator::kGranuleBytes;
    }
  };
  // What a tenant's entries hold together.
  struct Held {
    base::TenantId tenant;
    std::uint64_t extent_bytes = 0;
  };
  struct Limits {
    std::uint64_t arena_bytes = 0;
    std::uint32_t highest = 0;  // records, and so long keys, above this number were never used
    bool same_boot = false;     // the clock of what expires still runs
    base::TimeNs now_ns = 0;
  };
  using Losses = std::array<std::uint64_t, kRecoveryLossCount>;

  // O(highest) where generations are spread evenly, else O(highest x log). Throws std::bad_alloc.
  // When the crew is stopped the result is of no use. The crew advances by one for each record.
  RecoveryScan(const Table<Record>& records, const Table<LongKey>& long_keys, const Limits& limits,
               RecoveryCrew& crew);

  // By address, and by generation from the oldest on. An entry that was dropped after the scan
  // stays on them until shed().
  [[nodiscard]] const CrewArray<Found>& by_address() const noexcept { return by_address_; }
  [[nodiscard]] const CrewArray<Found>& by_age() const noexcept { return by_age_; }
  // For the index, in no order; taken once.
  [[nodiscard]] CrewArray<IndexFill::Entry> take_tags() noexcept { return std::move(tags_); }
  // More than there are of, where there are more tenants than `held` lists.
  [[nodiscard]] const std::vector<Held>& held() const noexcept { return held_; }
  [[nodiscard]] bool lists_all_tenants() const noexcept { return lists_all_tenants_; }
  // Long keys and the records that name them.
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, std::uint32_t>>& long_claims()
      const noexcept {
    return long_claims_;
  }

  [[nodiscard]] bool keeps(std::uint32_t number) const noexcept { return kept_[number] != 0; }
  // For an entry that is kept. Any thread, for a number of its own.
  void drop(std::uint32_t number) noexcept { kept_[number] = 0; }
  void count(RecoveryLoss loss, std::uint64_t entries = 1) noexcept {
    lost_[static_cast<std::size_t>(loss)] += entries;
  }
  // What was dropped leaves both lists.
  void shed() noexcept;

  // Of all entries that were sound, dropped ones included; 0: there was none.
  [[nodiscard]] std::uint64_t generation_max() const noexcept { return generation_max_; }
  [[nodiscard]] const Losses& lost() const noexcept { return lost_; }

private:
  // What one thread found: it writes nothing that another one does.
  struct Range {
    std::uint32_t first = 0;  // a record
    std::uint32_t end = 0;
    std::size_t found = 0;  // elements of each list, from first - 1 on
    std::uint64_t generation_max = 0;
    Losses lost{};
    std::vector<Held> held;
    bool holds_more = false;  // than `held` has room for
    std::vector<std::pair<std::uint32_t, std::uint32_t>> long_claims;
  };

  // Whether the numbers of a sealed record can be used; its key has not been looked at.
  [[nodiscard]] bool is_possible(const Record& record) const noexcept;
  [[nodiscard]] std::string_view key_of(const Record& record) const noexcept;
  void look_at_all(RecoveryCrew& crew);
  void look_at(std::uint32_t number, Range& range);
  static bool add_to(std::vector<Held>& held, const Held& more);
  // Into lists without gaps.
  void gather(std::vector<Range>& ranges);
  void drop_overlapping();
  void drop_shared_long_keys();

  const Table<Record>& records_;
  const Table<LongKey>& long_keys_;
  const Limits limits_;
  CrewArray<Found> by_address_;
  CrewArray<Found> by_age_;
  CrewArray<IndexFill::Entry> tags_;
  CrewArray<std::uint8_t> kept_;  // by number
  std::vector<Held> held_;
  bool lists_all_tenants_ = true;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> long_claims_;
  std::uint64_t generation_max_ = 0;
  Losses lost_{};
};

}  // namespace simm::store
