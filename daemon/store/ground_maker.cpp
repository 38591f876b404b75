#include "daemon/store/ground_maker.h"

#include <algorithm>

#include "daemon/store/write_request.h"

namespace simm::store {

namespace {

constexpr std::uint32_t kGroundLooksPerCall = 1024;
constexpr std::uint32_t kGroundEvictionsPerCall = 128;
// An object as long as so many of those that are there gets ground: no window has more blocks.
constexpr std::uint64_t kLongInOthers = HoleWindow::kBlocksMax;

}  // namespace

bool GroundMaker::is_needed(std::uint64_t extent_bytes,
                            std::uint64_t evicted_bytes) const noexcept {
  const std::uint64_t mean = book_.extents.extent_bytes() / std::max(book_.records.used(), 1u);
  if (extent_bytes / kLongInOthers >= std::max(mean, ExtentAllocator::kGranuleBytes)) return true;
  // Nor is there a window for it, it seems.
  return evicted_bytes >= eviction_budget(book_.extents.arena_bytes(), extent_bytes) / 2 &&
         book_.extents.free_bytes() >= extent_bytes;
}

void GroundMaker::begin(const base::KeyHash& hash, const Need& need) noexcept {
  // Behind the last long object, so that they come to lie side by side; or at the largest hole.
  std::uint32_t from = compactor_.block_at_hand();
  if (from == kNone || book_.extents.block(from).in_use) {
    from = kNone;
    book_.extents.visit_large_holes(HoleWindow::kHolesMax, [&](std::uint32_t hole) {
      if (from == kNone || book_.extents.block(hole).bytes > book_.extents.block(from).bytes)
        from = hole;
    });
  }
  if (from == kNone) return;
  book_.extents.withhold(from);
  ground_ = {};
  ground_.block = from;
  ground_.key = hash;
  ground_.need = need;
}

void GroundMaker::end() noexcept {
  if (ground_.moving != kNone) end_move(false);
  book_.extents.release(ground_.block);
  ground_ = {};
}

std::uint32_t GroundMaker::take(const base::KeyHash& hash, std::uint64_t wanted) noexcept {
  if (!is_for(hash, wanted) || !is_ready()) return kNone;
  book_.extents.trim(ground_.block, wanted);
  const std::uint32_t block = ground_.block;
  ground_ = {};
  return block;
}

GroundMaker::Neighbour GroundMaker::neighbour(std::uint32_t block, const GroupBook::Victim& victim,
                                              std::uint32_t times,
                                              base::TimeNs now_ns) const noexcept {
  if (block == kNone) return {};
  const Block found = book_.extents.block(block);
  if (!found.in_use) return {block, Neighbour::What::hole, 0};
  if (found.owner == kNone) return {};
  const Record& record = book_.records[found.owner];
  if (record.state != RecordState::live || record.pins > 0) return {};
  if (book_.groups.may_replace(record.group, victim, times, now_ns)) {
    return {block, Neighbour::What::evict, found.bytes / 2};
  }
  return {block, Neighbour::What::move, found.bytes};
}

std::uint32_t GroundMaker::evict(const GroupBook::Victim& victim, std::uint32_t number,
                                 base::TimeNs now_ns) noexcept {
  if (ground_.evicted_bytes_left == 0) return 0;
  const std::uint64_t before = book_.counts.evicted_bytes;
  const std::uint32_t group = number == kNone ? victim.group : book_.records[number].group;
  const bool breaks_lease = number == kNone && victim.breaks_lease;
  const bool for_quota = book_.over_quota(ground_.need.account, ground_.need.extent_bytes);
  const std::uint32_t gone = book_.evict_from(group, breaks_lease, now_ns, number);
  const std::uint64_t bytes = book_.counts.evicted_bytes - before;
  ground_.evicted_bytes_left -= std::min(ground_.evicted_bytes_left, bytes);
  if (for_quota) book_.counts.evicted_for_quota += gone;
  return gone;
}

std::uint32_t GroundMaker::move(std::uint32_t number, const GroupBook::Victim& victim,
                                base::TimeNs now_ns) noexcept {
  Record& record = book_.records[number];
  ground_.place = book_.extents.allocate(record.length);
  if (ground_.place != kNone) {
    book_.add_pin(record);
    ground_.moving = number;
    ground_.copied = 0;
    return 0;
  }
  // The next victim's place will do when it is long enough.
  const bool other_will_do =
      victim.group != kNone &&
      book_.groups.groups()[victim.group].extent_bytes >= ExtentAllocator::rounded(record.length);
  if (other_will_do) return evict(victim, kNone, now_ns);
  if (!book_.groups.may_give_way(record.group, victim, now_ns)) return 0;
  return evict(victim, number, now_ns);
}

bool GroundMaker::copy(std::uint64_t& copies_left) noexcept {
  if (ground_.moving == kNone) return true;
  const Block source = book_.extents.block(book_.records[ground_.moving].block);
  const Block place = book_.extents.block(ground_.place);
  if (!book_.copy_extent(source, place, ground_.copied, copies_left)) return false;
  end_move(true);
  return true;
}

void GroundMaker::end_move(bool done) noexcept {
  book_.end_move(book_.records[ground_.moving].block, ground_.place, done);
  ground_.moving = ground_.place = kNone;
}

bool GroundMaker::grow(base::TimeNs now_ns) noexcept {
  const std::uint64_t bytes_before = book_.extents.block(ground_.block).bytes;
  std::uint64_t copies_left = book_.config.moved_bytes_per_call;
  std::uint32_t evictions_left = kGroundEvictionsPerCall;
  const std::uint32_t times = compactor_.times_worth(ground_.need.extent_bytes);
  GroupBook::Victim victim = book_.victim_of(ground_.need, now_ns);
  for (std::uint32_t looks = 0; looks < kGroundLooksPerCall && !is_ready(); ++looks) {
    if (!copy(copies_left)) break;
    const Neighbour before = neighbour(book_.extents.before(ground_.block), victim, times, now_ns);
    const Neighbour after = neighbour(book_.extents.after(ground_.block), victim, times, now_ns);
    const Neighbour& next = before.cost < after.cost ? before : after;
    if (next.what == Neighbour::What::none) break;
    if (next.what == Neighbour::What::hole) {
      ground_.block = book_.extents.absorb(ground_.block, next.block);
      continue;
    }
    if (evictions_left == 0 || copies_left == 0) break;
    const std::uint32_t number = book_.extents.block(next.block).owner;
    const std::uint32_t gone = next.what == Neighbour::What::evict ? evict(victim, number, now_ns)
                                                                   : move(number, victim, now_ns);
    if (gone == 0 && ground_.moving == kNone) break;
    evictions_left -= std::min(evictions_left, gone);
    if (gone > 0) victim = book_.victim_of(ground_.need, now_ns);
  }
  return copies_left < book_.config.moved_bytes_per_call ||
         evictions_left < kGroundEvictionsPerCall ||
         bytes_before < book_.extents.block(ground_.block).bytes;
}

int GroundMaker::do_work(base::TimeNs now_ns) noexcept {
  if (now_ns - ground_.asked_ns > kUnclaimedNs) {
    end();
    return 1;
  }
  const std::uint64_t bytes_before = book_.counts.evicted_bytes;
  const bool grew = grow(now_ns);
  ground_.evicted_bytes += book_.counts.evicted_bytes - bytes_before;
  return grew ? 1 : 0;
}

bool GroundMaker::ask(const base::KeyHash& hash, const Need& need, std::uint64_t evicted_bytes,
                      base::TimeNs now_ns) noexcept {
  if (!active()) begin(hash, need);
  if (!active()) return false;
  if (!is_for(hash, need.extent_bytes)) return true;  // one after the other
  const std::uint64_t budget = eviction_budget(book_.extents.arena_bytes(), need.extent_bytes);
  ground_.asked_ns = now_ns;
  ground_.evicted_bytes_left = budget - std::min(budget, evicted_bytes);
  const bool grew = grow(now_ns);
  return grew || is_ready() || book_.victim_of(need, now_ns).group != kNone;
}

}  // namespace simm::store
