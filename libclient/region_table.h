// RegionTable: all regions of the process on one socket, found by address.
// Thread: any. find() takes a shared lock; a lane remembers its last answer, so a call that stays
// in one region takes none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <shared_mutex>

#include "libclient/fork_mutex.h"
#include "libclient/region_record.h"
#include "simm/expected.h"

namespace simm::detail {

class RegionTable {
public:
  explicit RegionTable(Core& core) noexcept : core_(core) {}
  [[nodiscard]] Core& core() const noexcept { return core_; }

  // A record for new memory: open, not known to the daemon. invalid_argument when the memory
  // overlaps a region that is there; out_of_memory when there are kRegionsMax.
  Expected<RegionRecord*> add(RegionMemory memory);
  // The first half of a region's end: find() and add() no longer see it. Safe twice.
  void unlist(RegionRecord& record) noexcept;
  // The second half: unmaps the memory of a closed, unlisted record that nobody holds any more, and
  // makes the record free again.
  void recycle(RegionRecord& record) noexcept;

  // The region that holds the range, or null. A guess until begin_use() and covers() confirm it.
  [[nodiscard]] RegionRecord* find(std::uint64_t address, std::uint64_t length) const noexcept;

  void for_each(const std::function<void(RegionRecord&)>& visit);

  // Around fork(): nobody changes the table.
  void before_fork() noexcept {
    writers_.hold_for_fork();
    reasons_mutex_.hold_for_fork();
  }
  void after_fork_parent() noexcept {
    reasons_mutex_.release();
    writers_.release();
  }
  void after_fork_child() noexcept;

private:
  Core& core_;
  // Who changes the table has both; who reads it, the second alone. fork() holds the first: glibc
  // lets only the thread that locked a shared mutex unlock it, and a child's thread is another.
  ForkMutex writers_;
  mutable std::shared_mutex mutex_;
  ForkMutex reasons_mutex_;           // of the records: held for the copy of a text only
  std::deque<RegionRecord> records_;  // never shrinks: see RegionRecord
  std::deque<RegionRecord*> free_;
  std::map<std::uint64_t, RegionRecord*> by_end_;  // key: first address behind the region
  std::uint32_t next_generation_ = 1;
};

}  // namespace simm::detail
