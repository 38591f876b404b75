// StoreRecovery: takes over the objects that a kept metadata table proves, and derives the rest
// from them: index, accounts, extents, groups, expiry.
//
// Order. An entry that is given up keeps its seal until all is decided, and loses it before its
// number or its extent can be used. So a recovery that is killed leaves a table that the next one
// reads likewise.
//
// Speed. Most of the work is waiting for memory. So the threads of the crew share the scan, the
// sorts and the index; then one gives the objects their extents while another one gives them their
// groups. A step that takes entries in another order than that of their numbers asks for them some
// steps ahead.
// Thread: any, which owns the book until run() returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/object_book.h"
#include "daemon/store/pool/recovery_crew.h"
#include "daemon/store/pool/recovery_scan.h"
#include "daemon/store/pool/shard_memory.h"
#include "simm/expected.h"

namespace simm::store {

class StoreRecovery {
public:
  // `book` is new, and of `memory`; all three outlive the recovery.
  StoreRecovery(ObjectBook& book, const ShardMemory& memory, RecoveryCrew& crew) noexcept
      : book_(book), memory_(memory), crew_(crew) {}

  // Once. Fails when memory is refused or the crew was stopped. Then the book is of no use, and the
  // memory proves what it proved before.
  [[nodiscard]] Outcome run();

private:
  // Takes over the records of an earlier life, numbers up to `highest`.
  [[nodiscard]] Outcome take_over(std::uint32_t highest);
  // All into the index. Of one key the newest entry is the object, the others are dropped.
  void fill_index(RecoveryScan& scan);
  // What the tenants of today have no room for is dropped, the oldest first.
  void drop_refused(RecoveryScan& scan);
  [[nodiscard]] bool all_have_room(const RecoveryScan& scan) const;
  void claim_extents(const RecoveryScan& scan) noexcept;
  // Also what an entry says of this life. The oldest first, as they once came: that is the order in
  // which they leave.
  void admit_all(const RecoveryScan& scan) noexcept;
  void admit(const RecoveryScan::Found& found) noexcept;
  void release_unproved(const RecoveryScan& scan, std::uint32_t highest);
  // After each step of a long loop, told to the crew now and then. False: it was stopped.
  bool goes_on(std::size_t step) noexcept;

  ObjectBook& book_;
  const ShardMemory& memory_;
  RecoveryCrew& crew_;
};

}  // namespace simm::store
