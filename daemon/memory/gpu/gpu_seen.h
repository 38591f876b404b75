// GpuSeen: pieces of one tenant's objects that the node got into memory of a GPU once, and that no
// tier has. The tier of whoever gets such a piece next takes it in: the second get of the node
// counts, on whatever GPUs the two were. While a tier takes a piece in, no other one does: the next
// gets find it there and are pushed.
//
// Each tenant has a table of its own, of fixed size: whatever others get, its names stay. Within a
// table names that meet drive each other out: then a piece is taken in later.
//
// GpuNodeSeen: the tables of all tenants, which all GPUs of the node use.
//
// Thread: GpuSeen: any data agent, no lock, no allocation. GpuNodeSeen: the adopter.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "daemon/memory/gpu/each_tenant.h"
#include "daemon/memory/gpu/gpu_protocol.h"

namespace simm::memory {

class GpuSeen {
public:
  enum class Turn : std::uint8_t {
    first,    // no get before this one counts
    second,   // the tier of this GPU takes the piece in
    neither,  // another tier takes it in now, or this one is seen and has no tier
  };

  // Of a get that is about to be queued. `print`: of its name (gpu_name_print()). `has_tier`: the
  // GPU that gets it. What comes of `second` ends with end().
  Turn begin(std::uint64_t print, bool has_tier) noexcept {
    std::atomic<std::uint32_t>& cell = cell_of(print);
    const std::uint32_t seen = mark_of(print);
    std::uint32_t had = cell.load(std::memory_order_relaxed);
    for (;;) {
      const bool is_ours = (had & ~kTaken) == seen;
      if (is_ours && ((had & kTaken) != 0 || !has_tier)) return Turn::neither;
      const std::uint32_t now = is_ours ? seen | kTaken : seen;
      if (!cell.compare_exchange_weak(had, now, std::memory_order_relaxed)) continue;
      return is_ours ? Turn::second : Turn::first;
    }
  }
  // The get was not queued: it did not happen.
  void undo(std::uint64_t print, Turn turn) noexcept {
    if (turn == Turn::first) change(print, mark_of(print), 0);
    if (turn == Turn::second) change(print, mark_of(print) | kTaken, mark_of(print));
  }
  // The tier has the piece, or has no room for it. Whoever wants it there later gets it twice
  // again.
  void end(std::uint64_t print) noexcept { change(print, mark_of(print) | kTaken, 0); }

  static constexpr std::uint32_t kCells = kGpuSeenCells;

private:
  static constexpr std::uint32_t kTaken = 1;

  std::atomic<std::uint32_t>& cell_of(std::uint64_t print) noexcept {
    return cells_[(print >> 8) % kCells];
  }
  // Never 0, which is an empty cell.
  static std::uint32_t mark_of(std::uint64_t print) noexcept {
    return static_cast<std::uint32_t>(print >> 32 | 2) & ~kTaken;
  }
  void change(std::uint64_t print, std::uint32_t had, std::uint32_t now) noexcept {
    (void)cell_of(print).compare_exchange_strong(had, now, std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint32_t>, kCells> cells_{};
};

using GpuNodeSeen = EachTenant<GpuSeen>;

}  // namespace simm::memory
