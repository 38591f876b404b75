// HoleWindow: neighbouring blocks of an arena that would be one long hole if a few extents among
// them lay elsewhere. find_window() looks for a cheap one around the largest holes there are.
//
// Bounded: however large the arena is, it looks at no more than kHolesMax holes and kLooksMax
// blocks, and a window has at most kBlocksMax of these. Thread: the data agent of the store.
#pragma once

#include <cstdint>
#include <limits>

#include "daemon/store/extent_allocator.h"

namespace simm::store {

struct HoleWindow {
  static constexpr std::uint32_t kHolesMax = 8;
  static constexpr std::uint32_t kLooksMax = 2048;
  static constexpr std::uint32_t kBlocksMax = 512;

  std::uint32_t first = kNone;  // kNone: there is no window
  std::uint32_t last = kNone;
  std::uint32_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t extent_bytes = 0;  // of the extents in it, that is what has to be moved
};

// Grows a window to both sides of one hole.
template <typename MayMove>
class WindowGrower {
public:
  // may_move(owner): whether the extent of this owner can be moved now.
  WindowGrower(const ExtentAllocator& extents, const MayMove& may_move, std::uint32_t hole)
      : extents_(extents), may_move_(may_move) {
    window_.first = window_.last = hole;
    window_.blocks = 1;
    window_.bytes = extents_.block(hole).bytes;
    before_ = movable(extents_.before(hole));
    after_ = movable(extents_.after(hole));
  }

  // Takes in the cheaper neighbour; false when there is none. A hole costs nothing.
  bool grow() noexcept {
    if (before_ == kNone && after_ == kNone) return false;
    if (cost(before_) < cost(after_)) {
      add(before_);
      window_.first = before_;
      before_ = movable(extents_.before(before_));
    } else {
      add(after_);
      window_.last = after_;
      after_ = movable(extents_.after(after_));
    }
    return true;
  }
  [[nodiscard]] const HoleWindow& window() const noexcept { return window_; }

private:
  [[nodiscard]] std::uint32_t movable(std::uint32_t block) const noexcept {
    if (block == kNone || extents_.block(block).in_use == 0) return block;
    const std::uint32_t owner = extents_.block(block).owner;
    return owner != kNone && may_move_(owner) ? block : kNone;
  }
  [[nodiscard]] std::uint64_t cost(std::uint32_t block) const noexcept {
    if (block == kNone) return std::numeric_limits<std::uint64_t>::max();
    return extents_.block(block).in_use == 0 ? 0 : extents_.block(block).bytes;
  }
  void add(std::uint32_t block) noexcept {
    const Block& b = extents_.block(block);
    ++window_.blocks;
    window_.bytes += b.bytes;
    if (b.in_use != 0) window_.extent_bytes += b.bytes;
  }

  const ExtentAllocator& extents_;
  const MayMove& may_move_;
  HoleWindow window_;
  std::uint32_t before_ = kNone;  // what could be taken in next
  std::uint32_t after_ = kNone;
};

// The cheapest window found of at least `bytes`, with at most `moves_max` bytes of extents in it.
template <typename MayMove>
[[nodiscard]] HoleWindow find_window(const ExtentAllocator& extents, std::uint64_t bytes,
                                     std::uint64_t moves_max, const MayMove& may_move) noexcept {
  HoleWindow best;
  std::uint32_t looks = 0;
  extents.visit_large_holes(HoleWindow::kHolesMax, [&](std::uint32_t hole) {
    WindowGrower<MayMove> grower(extents, may_move, hole);
    const HoleWindow& window = grower.window();
    while (window.bytes < bytes) {
      if (window.blocks == HoleWindow::kBlocksMax || looks++ == HoleWindow::kLooksMax) return;
      if (!grower.grow() || window.extent_bytes > moves_max) return;
      if (best.first != kNone && window.extent_bytes >= best.extent_bytes) return;
    }
    best = window;
  });
  return best;
}

}  // namespace simm::store
