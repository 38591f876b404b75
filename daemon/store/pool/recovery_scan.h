// RecoveryScan: which entries of a kept metadata table are to be believed. The scan changes
// nothing, and takes nothing for granted but that the memory is there. An entry counts under three
// conditions: its seal, place and key match their checks; it says what a store could have said; and
// no other entry claims any of its bytes. Two entries that claim the same bytes are both dropped:
// one of them lies.
//
// The payload is not looked at: whoever reads it first compares it with the digest.
// The entries are looked at by the threads of a crew, each with a range of its own.
// Thread: any; made and used inside StoreRecovery.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/pool/recovery_crew.h"
#include "daemon/store/pool/recovery_loss.h"
#include "daemon/store/space/table.h"

namespace simm::store {

class RecoveryScan {
public:
  struct Found {
    std::uint64_t offset;
    std::uint64_t generation;
    std::uint32_t number;
  };
  struct Limits {
    std::uint64_t arena_bytes = 0;
    std::uint32_t highest = 0;  // records, and so long keys, above this number were never used
    bool same_boot = false;     // the clock of what expires still runs
    base::TimeNs now_ns = 0;
  };

  // O(highest x log). Throws std::bad_alloc. When the crew is stopped the result is of no use. The
  // crew advances by one for each record.
  RecoveryScan(const Table<Record>& records, const Table<LongKey>& long_keys, const Limits& limits,
               RecoveryCrew& crew);

  // By address.
  [[nodiscard]] const std::vector<Found>& found() const noexcept { return found_; }
  // Of all entries that were sound, dropped ones included; 0: there was none.
  [[nodiscard]] std::uint64_t generation_max() const noexcept { return generation_max_; }
  [[nodiscard]] const std::array<std::uint64_t, kRecoveryLossCount>& lost() const noexcept {
    return lost_;
  }

private:
  using Losses = std::array<std::uint64_t, kRecoveryLossCount>;
  // What one thread found: it writes nothing that another one does.
  struct Range {
    std::uint32_t first = 0;  // a record
    std::uint32_t end = 0;
    std::size_t found = 0;  // entries of found_, from first - 1 on
    std::uint64_t generation_max = 0;
    Losses lost{};
  };

  // Whether the numbers of a sealed record can be used; its key has not been looked at.
  [[nodiscard]] bool is_possible(const Record& record) const noexcept;
  [[nodiscard]] std::string_view key_of(const Record& record) const noexcept;
  void look_at_all(RecoveryCrew& crew);
  void look_at(std::uint32_t number, Range& range) noexcept;
  void drop_overlapping(RecoveryCrew& crew);
  void drop_shared_long_keys();
  void count(RecoveryLoss loss) noexcept { ++lost_[static_cast<std::size_t>(loss)]; }

  const Table<Record>& records_;
  const Table<LongKey>& long_keys_;
  const Limits limits_;
  std::vector<Found> found_;
  std::uint64_t generation_max_ = 0;
  Losses lost_{};
};

}  // namespace simm::store
