// HoleWindow: neighbouring blocks of an arena that would be one long hole if a few extents among
// them lay elsewhere, or were given up. find_window() looks for a cheap one: where the last one
// ended, so that long objects come to lie side by side, or around the largest holes there are.
//
// Bounded: however large the arena is, it looks at no more than kHolesMax holes and so many blocks
// as its limits say. Thread: the data agent of the store.
#pragma once

#include <cstdint>
#include <limits>

#include "daemon/store/space/extent_allocator.h"

namespace simm::store {

// What can be done with an extent that is in the way.
enum class WayOut : std::uint8_t { none, move, evict };

struct WindowLimits {
  std::uint32_t blocks_max = 0;  // in a window
  std::uint32_t looks_max = 0;   // blocks looked at in a search
  std::uint64_t moves_max = 0;   // bytes of extents that have to be moved
};

struct HoleWindow {
  static constexpr std::uint32_t kHolesMax = 8;
  static constexpr std::uint32_t kBlocksMax = 4096;

  // What it costs: who is given up had to go soon, and is not copied.
  [[nodiscard]] std::uint64_t cost() const noexcept { return moved_bytes + evicted_bytes / 2; }

  std::uint32_t first = kNone;  // kNone: there is no window
  std::uint32_t last = kNone;
  std::uint32_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t moved_bytes = 0;    // of the extents in it that have to be moved,
  std::uint64_t evicted_bytes = 0;  // and of those that have to be given up
};

// Grows a window to both sides of one block.
template <typename WayOutOf>
class WindowGrower {
public:
  // way_out_of(owner): of the extent of this owner.
  WindowGrower(const ExtentAllocator& extents, const WayOutOf& way_out_of, std::uint32_t start)
      : extents_(extents), way_out_of_(way_out_of) {
    const Side middle = side(start);
    if (middle.block == kNone) return;
    window_.first = window_.last = start;
    add(middle);
    before_ = side(extents_.before(start));
    after_ = side(extents_.after(start));
  }

  // Takes in the cheaper neighbour; false when there is none. A hole costs nothing.
  bool grow() noexcept {
    if (before_.block == kNone && after_.block == kNone) return false;
    if (cost(before_) < cost(after_)) {
      add(before_);
      window_.first = before_.block;
      before_ = side(extents_.before(before_.block));
    } else {
      add(after_);
      window_.last = after_.block;
      after_ = side(extents_.after(after_.block));
    }
    return true;
  }
  // Takes in the holes at both ends, which would be one with it anyway.
  void take_holes() noexcept {
    while (cost(before_) == 0 || cost(after_) == 0) static_cast<void>(grow());
  }
  [[nodiscard]] const HoleWindow& window() const noexcept { return window_; }

private:
  // What could be taken in next; kNone: nothing.
  struct Side {
    std::uint32_t block = kNone;
    WayOut way_out = WayOut::none;  // none: it is a hole
  };

  [[nodiscard]] Side side(std::uint32_t block) const noexcept {
    if (block == kNone || !extents_.block(block).in_use) return {block, WayOut::none};
    const std::uint32_t owner = extents_.block(block).owner;
    const WayOut way_out = owner == kNone ? WayOut::none : way_out_of_(owner);
    return way_out == WayOut::none ? Side{} : Side{block, way_out};
  }
  [[nodiscard]] std::uint64_t cost(const Side& one) const noexcept {
    if (one.block == kNone) return std::numeric_limits<std::uint64_t>::max();
    if (one.way_out == WayOut::none) return 0;
    const std::uint64_t bytes = extents_.block(one.block).bytes;
    return one.way_out == WayOut::move ? bytes : bytes / 2;
  }
  void add(const Side& one) noexcept {
    const std::uint64_t bytes = extents_.block(one.block).bytes;
    ++window_.blocks;
    window_.bytes += bytes;
    if (one.way_out == WayOut::move) window_.moved_bytes += bytes;
    if (one.way_out == WayOut::evict) window_.evicted_bytes += bytes;
  }

  const ExtentAllocator& extents_;
  const WayOutOf& way_out_of_;
  HoleWindow window_;
  Side before_;
  Side after_;
};

// The cheapest window found of at least `bytes`; if there is one around `start` (unless kNone):
// that one.
template <typename WayOutOf>
[[nodiscard]] HoleWindow find_window(const ExtentAllocator& extents, std::uint64_t bytes,
                                     const WindowLimits& limits, std::uint32_t start,
                                     const WayOutOf& way_out_of) noexcept {
  HoleWindow best;
  std::uint32_t looks = 0;
  const auto try_around = [&](std::uint32_t block) {
    WindowGrower<WayOutOf> grower(extents, way_out_of, block);
    const HoleWindow& window = grower.window();
    if (window.first == kNone) return;
    while (window.bytes < bytes) {
      if (window.blocks >= limits.blocks_max || looks++ >= limits.looks_max) return;
      if (!grower.grow() || window.moved_bytes > limits.moves_max) return;
      if (best.first != kNone && window.cost() > best.cost()) return;
    }
    if (window.moved_bytes == 0) grower.take_holes();  // else they are places to move to
    // Of those that cost as much: the one that makes most of its holes.
    if (best.first == kNone || window.cost() < best.cost() || window.bytes > best.bytes) {
      best = window;
    }
  };
  if (start != kNone) try_around(start);
  if (best.first != kNone) return best;
  extents.visit_large_holes(HoleWindow::kHolesMax, try_around);
  return best;
}

}  // namespace simm::store
