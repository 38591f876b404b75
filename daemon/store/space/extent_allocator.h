// ExtentAllocator: which bytes of the arena are in use. Two-level segregated fit (Masmano, Ripoll,
// Crespo, Real, "TLSF: a new dynamic memory allocator for real-time systems", 2004) with immediate
// coalescing: allocate and release are O(1). All metadata is out of band: the arena holds payload
// only, so nothing that is written into an extent can damage the allocator.
//
// Granule 64 bytes: an extent starts and ends on a cache line; an object wastes at most 63 bytes.
// Exact: extent_bytes() + free_bytes() == arena bytes, always (audit() recounts).
// Thread: the data agent of the store.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/store/space/table.h"

namespace simm::store {

// A part of the arena, free or in use. Blocks cover the arena without gaps. A value.
struct Block {
  std::uint64_t offset = 0;  // of its first byte in the arena
  std::uint64_t bytes = 0;   // multiple of the granule
  bool in_use = false;       // an extent
  std::uint32_t owner = 0;   // whatever its holder says; kNone for holes
};

// A block as the table keeps it: there is one for each object and one for each hole. Numbers of
// granules have 40 bits, so an arena has at most 2^46 bytes.
class PackedBlock {
public:
  static constexpr std::uint64_t kGranuleBytes = 64;

  [[nodiscard]] std::uint64_t offset() const noexcept {
    return (std::uint64_t{offset_high_} << 32 | offset_low_) * kGranuleBytes;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return (std::uint64_t{length_high_} << 32 | length_low_) * kGranuleBytes;
  }
  [[nodiscard]] bool in_use() const noexcept { return in_use_; }
  [[nodiscard]] std::uint32_t owner() const noexcept { return in_use_ ? free.previous : kNone; }
  [[nodiscard]] Block value() const noexcept { return {offset(), bytes(), in_use(), owner()}; }

  void set_offset(std::uint64_t bytes) noexcept {
    offset_low_ = static_cast<std::uint32_t>(bytes / kGranuleBytes);
    offset_high_ = static_cast<std::uint8_t>(bytes / kGranuleBytes >> 32);
  }
  void set_bytes(std::uint64_t bytes) noexcept {
    length_low_ = static_cast<std::uint32_t>(bytes / kGranuleBytes);
    length_high_ = static_cast<std::uint8_t>(bytes / kGranuleBytes >> 32);
  }
  // Of a block that is on no list of holes.
  void set_in_use(bool in_use) noexcept {
    in_use_ = in_use;
    free = {};
  }
  // Of an extent.
  void set_owner(std::uint32_t owner) noexcept { free.previous = owner; }

  Link physical;  // by address
  Link free;      // of a hole: in its size class; of an extent: its owner

private:
  std::uint32_t offset_low_;
  std::uint32_t length_low_;
  std::uint8_t offset_high_;
  std::uint8_t length_high_;
  bool in_use_;
};
static_assert(sizeof(PackedBlock) == 28);

class ExtentAllocator {
public:
  static constexpr std::uint64_t kGranuleBytes = PackedBlock::kGranuleBytes;

  static constexpr std::uint64_t rounded(std::uint64_t bytes) {
    return (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
  }
  // Between `extents` extents there are at most extents + 1 holes.
  static constexpr std::uint32_t blocks_for(std::uint32_t extents) { return 2 * extents + 1; }

  // `blocks` has room for blocks_for(extents in use at once); arena_bytes is rounded down.
  ExtentAllocator(Table<PackedBlock> blocks, std::uint64_t arena_bytes) noexcept;

  // An extent of rounded(bytes) bytes, bytes > 0; kNone when no hole is long enough.
  [[nodiscard]] std::uint32_t allocate(std::uint64_t bytes) noexcept;
  void release(std::uint32_t block) noexcept;
  // The extent of rounded(bytes) bytes at this very offset, which lies in `hole`: for extents of an
  // earlier life, by address. What is left of the hole behind it is after() it.
  [[nodiscard]] std::uint32_t claim(std::uint32_t hole, std::uint64_t offset,
                                    std::uint64_t bytes) noexcept;
  void set_owner(std::uint32_t block, std::uint32_t owner) noexcept {
    blocks_[block].set_owner(owner);
  }

  // Takes a whole hole as if it were an extent, so that allocate() leaves it alone until release().
  void withhold(std::uint32_t hole) noexcept;
  // An extent takes in a hole that is its neighbour; returns the number of both together.
  [[nodiscard]] std::uint32_t absorb(std::uint32_t extent, std::uint32_t hole) noexcept;
  // An extent keeps its first rounded(bytes) bytes; the rest is free.
  void trim(std::uint32_t extent, std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint32_t first() const noexcept { return by_address_.front(); }
  // Neighbours by address, kNone at the ends of the arena.
  [[nodiscard]] std::uint32_t before(std::uint32_t block) const noexcept {
    return block == by_address_.front() ? kNone : blocks_[block].physical.previous;
  }
  [[nodiscard]] std::uint32_t after(std::uint32_t block) const noexcept {
    return by_address_.next(blocks_, block);
  }
  // Calls visit(hole) for at most `looks` holes, those of the largest sizes first.
  template <typename Visit>
  void visit_large_holes(std::uint32_t looks, Visit&& visit) const noexcept {
    for (std::uint32_t level = kLevels; level > 0 && looks > 0; --level) {
      if ((levels_ >> (level - 1) & 1) == 0) continue;
      for (std::uint32_t step = kSteps; step > 0 && looks > 0; --step) {
        const HoleList& list = holes_[level - 1][step - 1];
        std::uint32_t hole = list.front();
        for (; hole != kNone && looks > 0; --looks, hole = list.next(blocks_, hole)) visit(hole);
      }
    }
  }

  [[nodiscard]] Block block(std::uint32_t number) const noexcept { return blocks_[number].value(); }
  [[nodiscard]] std::uint64_t arena_bytes() const noexcept { return arena_bytes_; }
  [[nodiscard]] std::uint64_t extent_bytes() const noexcept { return arena_bytes_ - free_bytes_; }
  [[nodiscard]] std::uint64_t free_bytes() const noexcept { return free_bytes_; }

  [[nodiscard]] std::uint32_t holes() const noexcept { return holes_count_; }
  // The largest of some of those in the largest class: at most a 32nd too small.
  [[nodiscard]] std::uint64_t largest_hole_bytes() const noexcept {
    constexpr std::uint32_t kLooks = 8;
    std::uint64_t largest = 0;
    visit_large_holes(kLooks, [&](std::uint32_t hole) {
      largest = blocks_[hole].bytes() > largest ? blocks_[hole].bytes() : largest;
    });
    return largest;
  }
  // Of the free bytes: in holes too short for an extent of `bytes`. For measurements: O(holes).
  [[nodiscard]] std::uint64_t short_hole_bytes(std::uint64_t bytes) const noexcept {
    std::uint64_t sum = 0;
    visit_large_holes(holes_count_, [&](std::uint32_t hole) {
      if (blocks_[hole].bytes() < rounded(bytes)) sum += blocks_[hole].bytes();
    });
    return sum;
  }

  // Walks everything; null, or what does not add up. For tests: O(blocks).
  [[nodiscard]] const char* audit() const noexcept;

private:
  // Size classes in granules: exact below 32, then 32 steps for each power of two.
  static constexpr std::uint32_t kStepBits = 5;
  static constexpr std::uint32_t kSteps = 1u << kStepBits;
  static constexpr std::uint32_t kLevels = 48;
  // How many holes of a request's own class are looked at before a larger class is taken: a class
  // spans sizes, and in a full arena the only fitting hole is often one of exactly this size.
  static constexpr std::uint32_t kOwnClassLooks = 8;

  struct Class {
    std::uint32_t level;
    std::uint32_t step;
  };
  static Class class_of(std::uint64_t bytes) noexcept;
  // What is behind the first `bytes` bytes of a block becomes a block of its own, on no list yet.
  [[nodiscard]] std::uint32_t split(std::uint32_t block, std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint32_t find_hole(std::uint64_t bytes) const noexcept;
  void add_hole(std::uint32_t block) noexcept;
  void take_hole(std::uint32_t block) noexcept;
  void merge_next(std::uint32_t block) noexcept;

  using HoleList = IndexList<PackedBlock, &PackedBlock::free>;

  Table<PackedBlock> blocks_;
  IndexList<PackedBlock, &PackedBlock::physical> by_address_;
  std::uint64_t arena_bytes_ = 0;
  std::uint64_t free_bytes_ = 0;
  std::uint32_t holes_count_ = 0;
  std::uint64_t levels_ = 0;                    // bit: some class of the level has a hole
  std::array<std::uint32_t, kLevels> steps_{};  // bit: the class has a hole
  std::array<std::array<HoleList, kSteps>, kLevels> holes_{};
};

}  // namespace simm::store
