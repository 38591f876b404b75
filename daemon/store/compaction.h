// Compaction: the blocks of one HoleWindow while its extents are moved elsewhere or evicted, a
// bounded number at a time. All of these blocks stay in use until the job is done, so that nothing
// comes to lie between them. Plain data of the store. Thread: the data agent of the store.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/store/eviction/group_book.h"
#include "daemon/store/space/hole_window.h"

namespace simm::store {

struct Compaction {
  [[nodiscard]] bool active() const noexcept { return count > 0; }
  // In use, but of no record: holes of the window, and the new places of its extents.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    return active() ? bytes - evicted_bytes : 0;
  }
  // What is free when it is done, and is not now.
  [[nodiscard]] std::uint64_t free_soon_bytes() const noexcept { return active() ? bytes : 0; }
  // Whether a put of `wanted` bytes does well to wait for it.
  [[nodiscard]] bool serves(std::uint64_t wanted) const noexcept {
    return active() && wanted <= bytes && wanted > bytes / 2;
  }

  std::uint32_t count = 0;                                   // blocks; 0: there is no job
  std::uint32_t at = 0;                                      // the block that is copied next,
  std::uint64_t copied = 0;                                  // and how much of it has been
  std::uint64_t bytes = 0;                                   // of the hole that it makes
  std::uint64_t evicted_bytes = 0;                           // of it: extents that are given up
  std::uint64_t made_bytes = 0;                              // of the hole that the last one made
  Need need;                                                 // for whom they are
  std::array<std::uint32_t, HoleWindow::kBlocksMax> blocks;  // of the window, by address
  std::array<std::uint32_t, HoleWindow::kBlocksMax> places;  // where they go; kNone: nowhere
};

}  // namespace simm::store
