#include "daemon/store/space/extent_allocator.h"

#include <bit>

namespace simm::store {

ExtentAllocator::ExtentAllocator(Table<PackedBlock> blocks, std::uint64_t arena_bytes) noexcept
    : blocks_(blocks), arena_bytes_(arena_bytes / kGranuleBytes * kGranuleBytes) {
  SIMM_CHECK(arena_bytes_ > 0);
  const std::uint32_t whole = blocks_.allocate();
  SIMM_CHECK(whole != kNone);
  blocks_[whole].set_bytes(arena_bytes_);
  by_address_.push_back(blocks_, whole);
  add_hole(whole);
}

ExtentAllocator::Class ExtentAllocator::class_of(std::uint64_t bytes) noexcept {
  const std::uint64_t granules = bytes / kGranuleBytes;
  if (granules < kSteps) return {0, static_cast<std::uint32_t>(granules)};
  const auto top = static_cast<std::uint32_t>(std::bit_width(granules)) - 1;
  const auto step = static_cast<std::uint32_t>(granules >> (top - kStepBits)) & (kSteps - 1);
  return {top - kStepBits + 1, step};
}

std::uint32_t ExtentAllocator::find_hole(std::uint64_t bytes) const noexcept {
  const Class own = class_of(bytes);
  const HoleList& same = holes_[own.level][own.step];
  std::uint32_t hole = same.front();
  for (std::uint32_t looks = 0; hole != kNone && looks < kOwnClassLooks; ++looks) {
    if (blocks_[hole].bytes() >= bytes) return hole;
    hole = same.next(blocks_, hole);
  }
  // Every hole of a higher class is long enough.
  const std::uint64_t steps_above = ~((std::uint64_t{2} << own.step) - 1) & steps_[own.level];
  if (steps_above != 0) {
    return holes_[own.level][static_cast<std::uint32_t>(std::countr_zero(steps_above))].front();
  }
  const std::uint64_t levels_above = ~((std::uint64_t{2} << own.level) - 1) & levels_;
  if (levels_above == 0) return kNone;
  const auto level = static_cast<std::uint32_t>(std::countr_zero(levels_above));
  return holes_[level][static_cast<std::uint32_t>(std::countr_zero(steps_[level]))].front();
}

std::uint32_t ExtentAllocator::allocate(std::uint64_t bytes) noexcept {
  SIMM_CHECK(bytes > 0);
  if (bytes > arena_bytes_) return kNone;
  const std::uint64_t wanted = rounded(bytes);
  const std::uint32_t number = find_hole(wanted);
  if (number == kNone) return kNone;
  take_hole(number);
  if (blocks_[number].bytes() > wanted) add_hole(split(number, wanted));
  blocks_[number].set_in_use(true);
  return number;
}

std::uint32_t ExtentAllocator::split(std::uint32_t number, std::uint64_t bytes) noexcept {
  const std::uint32_t rest = blocks_.allocate();
  SIMM_CHECK(rest != kNone);  // blocks_for() counts every hole
  blocks_[rest].set_offset(blocks_[number].offset() + bytes);
  blocks_[rest].set_bytes(blocks_[number].bytes() - bytes);
  blocks_[number].set_bytes(bytes);
  by_address_.insert_after(blocks_, number, rest);
  return rest;
}

std::uint32_t ExtentAllocator::claim(std::uint32_t hole, std::uint64_t offset,
                                     std::uint64_t bytes) noexcept {
  SIMM_CHECK(hole != kNone && !blocks_[hole].in_use() && offset >= blocks_[hole].offset());
  const std::uint64_t before = offset - blocks_[hole].offset();
  const std::uint64_t wanted = rounded(bytes);
  SIMM_CHECK(before < blocks_[hole].bytes() && wanted <= blocks_[hole].bytes() - before);
  take_hole(hole);
  std::uint32_t number = hole;
  if (before > 0) {
    number = split(hole, before);
    add_hole(hole);
  }
  if (blocks_[number].bytes() > wanted) add_hole(split(number, wanted));
  blocks_[number].set_in_use(true);
  return number;
}

void ExtentAllocator::withhold(std::uint32_t number) noexcept {
  SIMM_CHECK(!blocks_[number].in_use());
  take_hole(number);
  blocks_[number].set_in_use(true);
}

std::uint32_t ExtentAllocator::absorb(std::uint32_t extent, std::uint32_t hole) noexcept {
  SIMM_CHECK(blocks_[extent].in_use() && (before(extent) == hole || after(extent) == hole));
  const std::uint32_t first = after(extent) == hole ? extent : hole;
  withhold(hole);
  merge_next(first);
  return first;
}

void ExtentAllocator::trim(std::uint32_t extent, std::uint64_t bytes) noexcept {
  const std::uint64_t kept = rounded(bytes);
  SIMM_CHECK(blocks_[extent].in_use() && kept <= blocks_[extent].bytes());
  if (kept == blocks_[extent].bytes()) return;
  const std::uint32_t rest = split(extent, kept);
  blocks_[rest].set_in_use(true);
  release(rest);
}

void ExtentAllocator::release(std::uint32_t number) noexcept {
  SIMM_CHECK(blocks_[number].in_use());
  blocks_[number].set_in_use(false);
  const std::uint32_t next = by_address_.next(blocks_, number);
  if (next != kNone && !blocks_[next].in_use()) {
    take_hole(next);
    merge_next(number);
  }
  if (number != by_address_.front()) {
    const std::uint32_t previous = blocks_[number].physical.previous;
    if (!blocks_[previous].in_use()) {
      take_hole(previous);
      merge_next(previous);
      number = previous;
    }
  }
  add_hole(number);
}

void ExtentAllocator::merge_next(std::uint32_t number) noexcept {
  const std::uint32_t next = blocks_[number].physical.next;
  blocks_[number].set_bytes(blocks_[number].bytes() + blocks_[next].bytes());
  by_address_.remove(blocks_, next);
  blocks_.release(next);
}

void ExtentAllocator::add_hole(std::uint32_t number) noexcept {
  const Class c = class_of(blocks_[number].bytes());
  // Newest first: its lines are the likeliest to be cached.
  holes_[c.level][c.step].push_front(blocks_, number);
  steps_[c.level] |= 1u << c.step;
  levels_ |= std::uint64_t{1} << c.level;
  free_bytes_ += blocks_[number].bytes();
  ++holes_count_;
}

void ExtentAllocator::take_hole(std::uint32_t number) noexcept {
  const Class c = class_of(blocks_[number].bytes());
  HoleList& list = holes_[c.level][c.step];
  list.remove(blocks_, number);
  if (list.empty()) {
    steps_[c.level] &= ~(1u << c.step);
    if (steps_[c.level] == 0) levels_ &= ~(std::uint64_t{1} << c.level);
  }
  free_bytes_ -= blocks_[number].bytes();
  --holes_count_;
}

const char* ExtentAllocator::audit() const noexcept {
  std::uint64_t at = 0;
  std::uint64_t free = 0;
  std::uint32_t holes = 0;
  std::uint32_t seen = 0;
  bool after_hole = false;
  for (std::uint32_t n = by_address_.front(); n != kNone; n = by_address_.next(blocks_, n)) {
    const Block b = block(n);
    if (b.offset != at) return "blocks leave a gap or overlap";
    if (b.bytes == 0 || b.bytes % kGranuleBytes != 0) return "a block's length is not granular";
    const bool hole = !b.in_use;
    if (hole && after_hole) return "two holes side by side";
    if (hole) {
      free += b.bytes;
      ++holes;
    }
    after_hole = hole;
    at += b.bytes;
    ++seen;
  }
  if (at != arena_bytes_) return "blocks do not cover the arena";
  if (free != free_bytes_) return "free bytes do not add up";
  if (holes != holes_count_) return "holes do not add up";
  if (seen != blocks_.used()) return "blocks are lost";
  for (std::uint32_t level = 0; level < kLevels; ++level) {
    if ((levels_ >> level & 1) != (steps_[level] != 0 ? 1u : 0u)) return "a level's bit is wrong";
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const HoleList& list = holes_[level][step];
      if ((steps_[level] >> step & 1) != (list.empty() ? 0u : 1u)) return "a class's bit is wrong";
      for (std::uint32_t n = list.front(); n != kNone; n = list.next(blocks_, n)) {
        const Class c = class_of(blocks_[n].bytes());
        if (c.level != level || c.step != step) return "a hole is in the wrong class";
        if (blocks_[n].in_use()) return "an extent is listed as a hole";
        --holes;
      }
    }
  }
  return holes == 0 ? nullptr : "holes are not listed exactly once";
}

}  // namespace simm::store
