// Moving objects: free memory in several holes becomes one hole.
//
// Only what nobody uses is moved: visible, without a pin. The job pins it as a reader would, so
// that its bytes stay as they are, whatever becomes of the object, until the copy is whole; then
// the record names the new place, in one turn. Whom somebody else reads at that moment stays where
// it is. Bytes, digest, generation, group and lease of an object are what they were.
#include <algorithm>
#include <cstring>

#include "daemon/store/store.h"
#include "simm/check.h"

namespace simm::store {

bool Store::begin_moves(std::uint64_t bytes, std::uint64_t moves_max) noexcept {
  const HoleWindow window = find_window(extents_, bytes, moves_max, [this](std::uint32_t number) {
    const Record& record = records_[number];
    return record.state == RecordState::live && record.pins == 0;
  });
  if (window.first == kNone) return false;
  job_.at = 0;
  job_.copied = 0;
  job_.bytes = window.bytes;
  for (std::uint32_t block = window.first; job_.count < window.blocks;
       block = extents_.after(block)) {
    if (extents_.block(block).in_use == 0) extents_.withhold(block);
    job_.blocks[job_.count] = block;
    job_.places[job_.count++] = kNone;
  }
  bool fits = true;
  for (std::uint32_t i = 0; i < job_.count && fits; ++i) {
    const Block& block = extents_.block(job_.blocks[i]);
    if (block.owner == kNone) continue;
    job_.places[i] = extents_.allocate(block.bytes);
    fits = job_.places[i] != kNone;
    if (fits) add_pin(records_[block.owner]);
  }
  if (!fits) end_moves(false);
  return fits;
}

void Store::continue_moves() noexcept {
  std::uint64_t budget = config_.moved_bytes_per_call;
  for (; job_.at < job_.count; ++job_.at, job_.copied = 0) {
    if (job_.places[job_.at] == kNone) continue;
    const Block& source = extents_.block(job_.blocks[job_.at]);
    const Block& place = extents_.block(job_.places[job_.at]);
    const std::uint64_t now = std::min(source.bytes - job_.copied, budget);
    // SAFETY: both are extents of the allocator, of the same length, and apart.
    std::memcpy(arena_.data() + place.offset + job_.copied,
                arena_.data() + source.offset + job_.copied, now);
    job_.copied += now;
    budget -= now;
    counts_.moved_bytes += now;
    if (job_.copied < source.bytes) return;
  }
  end_moves(true);
}

void Store::end_moves(bool copied) noexcept {
  for (std::uint32_t i = 0; i < job_.count; ++i) {
    const std::uint32_t block = job_.blocks[i];
    const std::uint32_t place = job_.places[i];
    const std::uint32_t number = extents_.block(block).owner;
    if (place == kNone) {
      if (number == kNone) extents_.release(block);
      continue;
    }
    Record& record = records_[number];
    const bool unused = end_pin(record);
    if (copied && unused && record.state == RecordState::live) {
      rename_extent(record, place);
      extents_.set_owner(place, number);
      extents_.release(block);
      continue;
    }
    extents_.release(place);
    if (!unused || record.state != RecordState::dead) continue;
    --counts_.lingering;
    free_record(number);
  }
  job_.count = 0;
}

void Store::rename_extent(Record& record, std::uint32_t block) noexcept {
  // A damaged record stays one, and the next reader finds out.
  record.block = block;
  move_to(record, extents_.block(block).offset);
  ++counts_.moved;
}

}  // namespace simm::store
