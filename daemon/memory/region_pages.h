// RegionPages: which pages of a mapped region exist, so that the daemon touches absent ones only
// within its session's TouchBudget.
//
// What exists is asked of the kernel right before each copy: mincore() where the daemon may see
// that (the file's mode lets it write), else SEEK_DATA/SEEK_HOLE on a descriptor that is kept for
// it. How far an answer is trusted later is the file's PageTrust. For files that can lose pages a
// client can win the race between question and touch; what it gains is bounded by the bytes of its
// pinned regions.
//
// Owned by its region. Thread: admit() from any data agent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/memory/touch_budget.h"
#include "ipc/fd.h"
#include "simm/status.h"

namespace simm::memory {

enum class PageTrust : std::uint8_t {
  // Nobody can take pages away (F_SEAL_SHRINK and F_SEAL_FUTURE_WRITE): a chunk that was whole once
  // is not asked about again.
  whole,
  // Only a punched hole takes pages away, which no honest client does. A chunk that was whole is
  // asked about by chance. Once pages are missing, every region of that session has no trust.
  spot_checked,
  none,  // pages may go at any time: asked before each copy
};

struct RegionPagesConfig {
  std::byte* mapping = nullptr;   // page-aligned start
  std::uint64_t bytes = 0;        // of the mapping, whole pages
  std::uint64_t file_offset = 0;  // of the mapping's start
  PageTrust trust = PageTrust::none;
  TouchBudget* budget = nullptr;
};

class RegionPages {
public:
  // `seek_fd`: ask by SEEK_HOLE on this descriptor; invalid: ask by mincore.
  RegionPages(const RegionPagesConfig& config, ipc::UniqueFd seek_fd);

  // Whether the `length` > 0 bytes at `address`, inside the mapping, may be touched: ok, or
  // out_of_memory when that would make more pages present than the budget has left.
  Status admit(const std::byte* address, std::uint64_t length) noexcept;

  // The same for somebody who touches all of it at once or nothing: what is refused costs nothing.
  // `touch` false: ok only when all of it exists. Thread: any; it takes a while for a GiB.
  Status admit_whole(const std::byte* address, std::uint64_t length, bool touch) noexcept;

  // Whether admit() ever refused: pages of the region that fail may have failed of that.
  [[nodiscard]] bool has_refused() const noexcept {
    return has_refused_.load(std::memory_order_relaxed);
  }

  // Bytes of [offset, offset + length), both whole pages, at most one granule, that do not exist.
  [[nodiscard]] std::uint64_t absent_bytes(std::uint64_t offset,
                                           std::uint64_t length) const noexcept;

  static constexpr std::uint64_t kGranuleBytes = 2 * 1024 * 1024;
  // What is remembered together. Short, because a chunk with holes costs a question each time, and
  // holes are the slow part of the answer.
  static constexpr std::uint64_t kChunkBytes = 64 * 1024;
  // One of so many looks at a whole chunk asks the kernel, where pages are spot-checked.
  static constexpr std::uint32_t kSpotCheckOneIn = 64;

private:
  [[nodiscard]] std::uint64_t absent_by_mincore(std::uint64_t offset,
                                                std::uint64_t length) const noexcept;
  [[nodiscard]] std::uint64_t absent_by_seek(std::uint64_t offset,
                                             std::uint64_t length) const noexcept;
  // Of [first, last), whole pages inside a granule.
  [[nodiscard]] std::uint64_t absent_in_granule(std::uint64_t first, std::uint64_t last) noexcept;
  [[nodiscard]] std::uint64_t absent_in_chunk(std::uint64_t first, std::uint64_t last) noexcept;
  // Whether a chunk that was whole may be touched without a question now.
  [[nodiscard]] bool is_still_whole(std::uint64_t start, std::uint64_t length) noexcept;
  [[nodiscard]] bool has_memory_of_chunks() const noexcept;

  // Whether so many absent bytes may be touched.
  [[nodiscard]] bool may_touch(std::uint64_t absent) noexcept;

  const RegionPagesConfig config_;
  const ipc::UniqueFd seek_fd_;
  std::atomic<bool> has_refused_{false};
  std::unique_ptr<std::atomic<std::uint64_t>[]> known_;  // a bit for each chunk all present
};

}  // namespace simm::memory
