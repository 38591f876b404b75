#include "daemon/store/compactor.h"

#include <algorithm>

#include "daemon/store/pool/record_seal.h"

namespace simm::store {

namespace {

constexpr std::uint32_t kJobEvictionsPerCall = 128;
// Most windows are of a few blocks. Only where a long object comes among short ones they are long.
constexpr WindowLimits kMovesOnly{512, 2048, 0};
constexpr WindowLimits kWithEvictions{HoleWindow::kBlocksMax, 8192, 0};

}  // namespace

bool Compactor::begin_moves(std::uint64_t bytes) noexcept {
  const auto way_out_of = [this](std::uint32_t number) {
    const Record& record = book_.records[number];
    const bool movable = record.state == RecordState::live && record.pins == 0;
    return movable ? WayOut::move : WayOut::none;
  };
  // Never more than the object that comes: moving at most doubles what a put costs.
  WindowLimits limits = kMovesOnly;
  limits.moves_max = bytes;
  need_ = {};
  return begin_job(find_window(book_.extents, bytes, limits, kNone, way_out_of), way_out_of);
}

std::uint32_t Compactor::times_worth(std::uint64_t extent_bytes) const noexcept {
  constexpr std::uint64_t kPerPercent = 128;  // of the arena, that is idle beyond what is usual
  constexpr std::uint64_t kMost = 256;
  constexpr std::uint64_t kForLongOnes = 8;
  const std::uint64_t percent = book_.extents.arena_bytes() / 100 + 1;
  const std::uint64_t usual = usual_bytes_ + 2 * percent;
  const std::uint64_t idle =
      book_.extents.free_bytes() - std::min(book_.extents.free_bytes(), usual);
  std::uint64_t times = std::min(idle * kPerPercent / percent, kMost);
  if (extent_bytes >= usual_bytes_ / 2) times = std::max(times, kForLongOnes);
  return static_cast<std::uint32_t>(times);
}

bool Compactor::begin_clearing(const Need& need, base::TimeNs now_ns) noexcept {
  const std::uint32_t times = times_worth(need.extent_bytes);
  if (times == 0) return false;
  const GroupBook::Victim victim = book_.groups.victim(need, now_ns);
  const std::uint64_t largest_hole = book_.extents.largest_hole_bytes();
  const auto way_out_of = [&](std::uint32_t number) {
    const Record& record = book_.records[number];
    if (record.state != RecordState::live || record.pins > 0) return WayOut::none;
    if (book_.groups.may_replace(record.group, victim, times, now_ns)) return WayOut::evict;
    return record.length <= largest_hole ? WayOut::move : WayOut::none;
  };
  WindowLimits limits = kWithEvictions;
  limits.moves_max = need.extent_bytes;
  need_ = need;
  const auto search_from = [&](std::uint32_t from) {
    const HoleWindow window =
        find_window(book_.extents, need.extent_bytes, limits, from, way_out_of);
    return begin_job(window, way_out_of);
  };
  const std::uint32_t beside = block_at_hand();
  if (beside != kNone && search_from(beside)) return true;
  return search_from(sweep(beside, way_out_of));
}

std::uint32_t Compactor::block_at_hand() const noexcept {
  const Record& passed = book_.records[hand_];
  const bool is_there = hand_ != kNone && passed.state != RecordState::unused &&
                        extent_offset(passed) == hand_offset_;
  return is_there ? book_.extents.after(passed.block) : kNone;
}

void Compactor::set_hand(std::uint32_t number) noexcept {
  hand_ = number;
  hand_offset_ = extent_offset(book_.records[number]);
}

template <typename WayOutOf>
std::uint32_t Compactor::sweep(std::uint32_t block, const WayOutOf& way_out_of) noexcept {
  constexpr std::uint32_t kLooks = 256;
  const auto is_hole = [this](std::uint32_t one) {
    return one != kNone && !book_.extents.block(one).in_use;
  };
  if (block == kNone) block = book_.extents.first();
  std::uint32_t passed = kNone;
  for (std::uint32_t looks = 0; block != kNone && looks < kLooks; ++looks) {
    const std::uint32_t owner = book_.extents.block(block).owner;
    const std::uint32_t after = book_.extents.after(block);
    const bool beside_hole = is_hole(after) || is_hole(book_.extents.before(block));
    if (owner != kNone && beside_hole && way_out_of(owner) == WayOut::evict) break;
    if (owner != kNone) passed = owner;
    block = after;
  }
  hand_ = kNone;  // behind the last block it begins anew
  if (block != kNone && passed != kNone) set_hand(passed);
  return block;
}

template <typename WayOutOf>
bool Compactor::begin_job(const HoleWindow& window, const WayOutOf& way_out_of) noexcept {
  if (window.first == kNone) return false;
  at_ = 0;
  copied_ = 0;
  bytes_ = window.bytes;
  evicted_bytes_ = window.evicted_bytes;
  for (std::uint32_t block = window.first; count_ < window.blocks;
       block = book_.extents.after(block)) {
    if (!book_.extents.block(block).in_use) book_.extents.withhold(block);
    blocks_[count_] = block;
    places_[count_++] = kNone;
  }
  bool fits = true;
  for (std::uint32_t i = 0; i < count_ && fits; ++i) {
    const Block block = book_.extents.block(blocks_[i]);
    if (block.owner == kNone || way_out_of(block.owner) != WayOut::move) continue;
    places_[i] = book_.extents.allocate(block.bytes);
    fits = places_[i] != kNone;
  }
  for (std::uint32_t i = 0; i < count_; ++i) {
    const std::uint32_t owner = book_.extents.block(blocks_[i]).owner;
    if (fits && owner != kNone) book_.add_pin(book_.records[owner]);
    if (fits) continue;
    if (owner == kNone) book_.extents.release(blocks_[i]);
    if (places_[i] != kNone) book_.extents.release(places_[i]);
  }
  if (!fits) count_ = 0;
  return fits;
}

void Compactor::advance(base::TimeNs now_ns) noexcept {
  std::uint64_t copies_left = book_.config.moved_bytes_per_call;
  std::uint32_t evictions_left = kJobEvictionsPerCall;
  for (; at_ < count_; ++at_, copied_ = 0) {
    const Block source = book_.extents.block(blocks_[at_]);
    if (source.owner == kNone) continue;
    if (places_[at_] == kNone) {
      const std::uint32_t gone = evict_for_job(source.owner, now_ns);
      if (book_.records[source.owner].state == RecordState::live) return end_job(false);
      if (gone >= evictions_left) return;
      evictions_left -= gone;
      continue;
    }
    const Block place = book_.extents.block(places_[at_]);
    if (!book_.copy_extent(source, place, copied_, copies_left)) return;
  }
  end_job(true);
}

std::uint32_t Compactor::evict_for_job(std::uint32_t number, base::TimeNs now_ns) noexcept {
  const Record& record = book_.records[number];
  if (record.state != RecordState::live) return 0;  // it is gone already
  // Who gives way may have changed, and the object may have been used, since the job began.
  const GroupBook::Victim victim = book_.groups.victim(need_, now_ns);
  if (record.pins > 1 || !book_.groups.may_give_way(record.group, victim, now_ns)) return 0;
  return book_.evict_from(record.group, false, now_ns, number);
}

void Compactor::end_job(bool done) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const std::uint32_t block = blocks_[i];
    const std::uint32_t place = places_[i];
    const std::uint32_t number = book_.extents.block(block).owner;
    if (number == kNone) {
      book_.extents.release(block);
      continue;
    }
    book_.end_move(block, place, done);
  }
  count_ = 0;
  made_bytes_ = done ? bytes_ : 0;
}

void Compactor::note_place(std::uint32_t number) noexcept {
  const Record& placed = book_.records[number];
  const bool made_for_it = placed.length > made_bytes_ / 2 && placed.length <= made_bytes_;
  if (made_for_it) made_bytes_ = 0;
  if (made_for_it || placed.block == block_at_hand()) set_hand(number);
}

}  // namespace simm::store
