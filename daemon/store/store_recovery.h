// StoreRecovery: takes over the objects that a kept metadata table proves, and derives the rest
// from them: index, accounts, extents, groups, expiry.
//
// Order. An entry that is given up keeps its seal until all is decided, and loses it before its
// number or its extent can be used. So a recovery that is killed leaves a table that the next one
// reads likewise.
// Thread: any, which owns the book until run() returns.
#pragma once

#include <cstdint>
#include <vector>

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
  // False: it was stopped.
  bool readmit_all(const std::vector<RecoveryScan::Found>& by_age);
  void readmit(std::uint32_t record) noexcept;
  void regroup(std::uint32_t record) noexcept;
  void release_unproved(std::uint32_t highest);
  // After each step of a long loop, told to the crew now and then. False: it was stopped.
  bool goes_on(std::size_t step) noexcept;

  ObjectBook& book_;
  const ShardMemory& memory_;
  RecoveryCrew& crew_;
};

}  // namespace simm::store
