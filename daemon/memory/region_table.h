// RegionTable: the regions of one session by handle, and the only factory of Slices.
//
// A handle is generation << 16 | index. The generation of a slot grows each time the slot is used
// again and is never 0, and free slots are used in the order in which they became free: a stale
// handle names nothing for as long as possible.
//
// A region ends in two steps. retire() refuses its handle from then on; operations that hold it go
// on. When the last of them has dropped it, take_idle() hands it out, to be destroyed on a thread
// that may unmap.
//
// Owned by its session. Thread: the session's data agent. Allocates in the constructor only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/memory/region_memory.h"
#include "ipc/layout.h"
#include "ipc/range.h"
#include "simm/status.h"

namespace simm::memory {

class RegionTable {
public:
  // At most `capacity` regions, 1 .. kRegionsMax.
  explicit RegionTable(std::uint32_t capacity);

  // Puts a region in and names it; kNoRegion when the table is full (the region is destroyed by the
  // caller, who keeps it then).
  ipc::RegionHandle insert(std::unique_ptr<RegionMemory>& memory) noexcept;

  // The validated slice [offset, offset + length) of the region, or invalid_argument: no such
  // handle, or not inside the region. length may be 0.
  // Inline: it is asked for every page.
  Status slice(ipc::RegionHandle handle, std::uint64_t offset, std::uint64_t length,
               Slice& slice) const noexcept {
    const RegionMemory* const memory = find(handle);
    if (memory == nullptr) return Status::invalid_argument;
    const Region& region = memory->region();
    if (!ipc::range_within(offset, length, region.length)) return Status::invalid_argument;
    slice = {&region, offset, length};
    return Status::ok;
  }

  // True when `handle` names a region that is not retired.
  [[nodiscard]] bool is_current(ipc::RegionHandle handle) const noexcept {
    return find(handle) != nullptr;
  }
  // True when `handle` was named by insert() at some time. A handle that slice() refuses although
  // it was given out is a race of a client that deregisters; any other one is forged.
  [[nodiscard]] bool was_given_out(ipc::RegionHandle handle) const noexcept;

  // An operation starts or stops using a region of this table.
  void hold(const Region& region) noexcept;
  void drop(const Region& region) noexcept;

  // Refuses the handle from now on; invalid_argument when it names no region.
  Status retire(ipc::RegionHandle handle) noexcept;
  void retire_all() noexcept;

  // A retired region that nobody holds, or null. Its slot may be used again.
  std::unique_ptr<RegionMemory> take_idle() noexcept;

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }  // retired ones included
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }

  // For listings: the region in slot `index`, or null.
  [[nodiscard]] const Region* at(std::uint32_t index) const noexcept;

private:
  struct Entry {
    std::unique_ptr<RegionMemory> memory;
    std::uint16_t generation = 0;  // of the last handle; 0: the slot was never used
  };
  [[nodiscard]] RegionMemory* find(ipc::RegionHandle handle) const noexcept {
    const std::uint32_t index = handle & 0xffff;
    if (index >= capacity_) return nullptr;
    const Entry& entry = entries_[index];
    const bool is_current = entry.generation == handle >> 16 && entry.memory != nullptr;
    return is_current && !entry.memory->retired ? entry.memory.get() : nullptr;
  }
  void push_idle(std::uint16_t index) noexcept;

  const std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  std::vector<Entry> entries_;
  // Free slots and idle (retired, not held) slots, both as rings of indexes.
  std::vector<std::uint16_t> free_;
  std::uint32_t free_first_ = 0;
  std::uint32_t free_count_ = 0;
  std::vector<std::uint16_t> idle_;
  std::uint32_t idle_first_ = 0;
  std::uint32_t idle_count_ = 0;
};

}  // namespace simm::memory
