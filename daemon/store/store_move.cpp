// Making one hole of several: what is in the way is moved, or evicted when that is cheaper and it
// would have to go soon anyway.
//
// Only what nobody uses is moved: visible, without a pin. The job pins it as a reader would, so
// that its bytes stay as they are, whatever becomes of the object, until the copy is whole; then
// the record names the new place, in one turn. Whom somebody else reads at that moment stays where
// it is. Bytes, digest, generation, group and lease of an object are what they were.
// Who has to make way is pinned likewise, so that all of the window comes free at one moment.
#include <algorithm>
#include <cstring>

#include "daemon/store/store.h"
#include "simm/check.h"

namespace simm::store {

namespace {

constexpr std::uint32_t kEvictionsPerCall = 128;
// Most windows are of a few blocks. Only where a long object comes among short ones they are long.
constexpr WindowLimits kMovesOnly{512, 2048, 0};
constexpr WindowLimits kWithEvictions{HoleWindow::kBlocksMax, 8192, 0};

}  // namespace

bool Store::begin_moves(std::uint64_t bytes) noexcept {
  const auto way_out_of = [this](std::uint32_t number) {
    const Record& record = records_[number];
    const bool movable = record.state == RecordState::live && record.pins == 0;
    return movable ? WayOut::move : WayOut::none;
  };
  // Never more than the object that comes: moving at most doubles what a put costs.
  WindowLimits limits = kMovesOnly;
  limits.moves_max = bytes;
  job_.need = {};
  return begin_job(find_window(extents_, bytes, limits, kNone, way_out_of), way_out_of);
}

std::uint32_t Store::times_worth(std::uint64_t extent_bytes) const noexcept {
  constexpr std::uint64_t kPerPercent = 128;  // of the arena, that is idle beyond what is usual
  constexpr std::uint64_t kMost = 256;
  constexpr std::uint64_t kForLongOnes = 8;
  const std::uint64_t percent = extents_.arena_bytes() / 100 + 1;
  const std::uint64_t usual = byte_stock_.high + 2 * percent;
  const std::uint64_t idle = extents_.free_bytes() - std::min(extents_.free_bytes(), usual);
  std::uint64_t times = std::min(idle * kPerPercent / percent, kMost);
  if (extent_bytes >= byte_stock_.high / 2) times = std::max(times, kForLongOnes);
  return static_cast<std::uint32_t>(times);
}

bool Store::begin_clearing(const Need& need, base::TimeNs now_ns) noexcept {
  const std::uint32_t times = times_worth(need.extent_bytes);
  if (times == 0) return false;
  const GroupBook::Victim victim = groups_.victim(need, now_ns);
  const std::uint64_t largest_hole = extents_.largest_hole_bytes();
  const auto way_out_of = [&](std::uint32_t number) {
    const Record& record = records_[number];
    if (record.state != RecordState::live || record.pins > 0) return WayOut::none;
    if (groups_.may_replace(record.group, victim, times, now_ns)) return WayOut::evict;
    return record.length <= largest_hole ? WayOut::move : WayOut::none;
  };
  WindowLimits limits = kWithEvictions;
  limits.moves_max = need.extent_bytes;
  job_.need = need;
  const auto search_from = [&](std::uint32_t from) {
    const HoleWindow window = find_window(extents_, need.extent_bytes, limits, from, way_out_of);
    return begin_job(window, way_out_of);
  };
  const std::uint32_t beside = block_at_hand();
  if (beside != kNone && search_from(beside)) return true;
  return search_from(sweep(beside, way_out_of));
}

std::uint32_t Store::block_at_hand() const noexcept {
  const Record& passed = records_[hand_];
  const bool is_there = hand_ != kNone && passed.state != RecordState::unused &&
                        extent_offset(passed) == hand_offset_;
  return is_there ? extents_.after(passed.block) : kNone;
}

void Store::set_hand(std::uint32_t number) noexcept {
  hand_ = number;
  hand_offset_ = extent_offset(records_[number]);
}

template <typename WayOutOf>
std::uint32_t Store::sweep(std::uint32_t block, const WayOutOf& way_out_of) noexcept {
  constexpr std::uint32_t kLooks = 256;
  const auto is_hole = [this](std::uint32_t one) {
    return one != kNone && !extents_.block(one).in_use;
  };
  if (block == kNone) block = extents_.first();
  std::uint32_t passed = kNone;
  for (std::uint32_t looks = 0; block != kNone && looks < kLooks; ++looks) {
    const std::uint32_t owner = extents_.block(block).owner;
    const std::uint32_t after = extents_.after(block);
    const bool beside_hole = is_hole(after) || is_hole(extents_.before(block));
    if (owner != kNone && beside_hole && way_out_of(owner) == WayOut::evict) break;
    if (owner != kNone) passed = owner;
    block = after;
  }
  hand_ = kNone;  // behind the last block it begins anew
  if (block != kNone && passed != kNone) set_hand(passed);
  return block;
}

template <typename WayOutOf>
bool Store::begin_job(const HoleWindow& window, const WayOutOf& way_out_of) noexcept {
  if (window.first == kNone) return false;
  job_.at = 0;
  job_.copied = 0;
  job_.bytes = window.bytes;
  job_.evicted_bytes = window.evicted_bytes;
  for (std::uint32_t block = window.first; job_.count < window.blocks;
       block = extents_.after(block)) {
    if (!extents_.block(block).in_use) extents_.withhold(block);
    job_.blocks[job_.count] = block;
    job_.places[job_.count++] = kNone;
  }
  bool fits = true;
  for (std::uint32_t i = 0; i < job_.count && fits; ++i) {
    const Block block = extents_.block(job_.blocks[i]);
    if (block.owner == kNone || way_out_of(block.owner) != WayOut::move) continue;
    job_.places[i] = extents_.allocate(block.bytes);
    fits = job_.places[i] != kNone;
  }
  for (std::uint32_t i = 0; i < job_.count; ++i) {
    const std::uint32_t owner = extents_.block(job_.blocks[i]).owner;
    if (fits && owner != kNone) add_pin(records_[owner]);
    if (fits) continue;
    if (owner == kNone) extents_.release(job_.blocks[i]);
    if (job_.places[i] != kNone) extents_.release(job_.places[i]);
  }
  if (!fits) job_.count = 0;
  return fits;
}

void Store::continue_moves(base::TimeNs now_ns) noexcept {
  std::uint64_t copies_left = config_.moved_bytes_per_call;
  std::uint32_t evictions_left = kEvictionsPerCall;
  for (; job_.at < job_.count; ++job_.at, job_.copied = 0) {
    const Block source = extents_.block(job_.blocks[job_.at]);
    if (source.owner == kNone) continue;
    if (job_.places[job_.at] == kNone) {
      const std::uint32_t gone = evict_for_job(source.owner, now_ns);
      if (records_[source.owner].state == RecordState::live) return end_moves(false);
      if (gone >= evictions_left) return;
      evictions_left -= gone;
      continue;
    }
    const Block place = extents_.block(job_.places[job_.at]);
    const std::uint64_t now = std::min(source.bytes - job_.copied, copies_left);
    // SAFETY: both are extents of the allocator, of the same length, and apart.
    std::memcpy(arena_.data() + place.offset + job_.copied,
                arena_.data() + source.offset + job_.copied, now);
    job_.copied += now;
    copies_left -= now;
    counts_.moved_bytes += now;
    if (job_.copied < source.bytes) return;
  }
  end_moves(true);
}

std::uint32_t Store::evict_for_job(std::uint32_t number, base::TimeNs now_ns) noexcept {
  const Record& record = records_[number];
  if (record.state != RecordState::live) return 0;  // it is gone already
  // Who gives way may have changed, and the object may have been used, since the job began.
  const GroupBook::Victim victim = groups_.victim(job_.need, now_ns);
  if (record.pins > 1 || !groups_.may_give_way(record.group, victim, now_ns)) return 0;
  return evict_from(record.group, false, now_ns, number);
}

void Store::end_moves(bool done) noexcept {
  for (std::uint32_t i = 0; i < job_.count; ++i) {
    const std::uint32_t block = job_.blocks[i];
    const std::uint32_t place = job_.places[i];
    const std::uint32_t number = extents_.block(block).owner;
    if (number == kNone) {
      extents_.release(block);
      continue;
    }
    end_move(block, place, done);
  }
  job_.count = 0;
  job_.made_bytes = done ? job_.bytes : 0;
}

void Store::end_move(std::uint32_t block, std::uint32_t place, bool done) noexcept {
  const std::uint32_t number = extents_.block(block).owner;
  Record& record = records_[number];
  const bool unused = end_pin(record);
  if (place != kNone && done && unused && record.state == RecordState::live) {
    rename_extent(record, place);
    extents_.set_owner(place, number);
    extents_.release(block);
    return;
  }
  if (place != kNone) extents_.release(place);
  if (!unused || record.state != RecordState::dead) return;
  --counts_.lingering;
  free_record(number);
}

void Store::note_place(std::uint32_t number) noexcept {
  const Record& placed = records_[number];
  const bool made_for_it = placed.length > job_.made_bytes / 2 && placed.length <= job_.made_bytes;
  if (made_for_it) job_.made_bytes = 0;
  if (made_for_it || placed.block == block_at_hand()) set_hand(number);
}

void Store::rename_extent(Record& record, std::uint32_t block) noexcept {
  // A damaged record stays one, and the next reader finds out.
  record.block = block;
  move_to(record, extents_.block(block).offset);
  ++counts_.moved;
}

}  // namespace simm::store
