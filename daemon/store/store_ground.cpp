// Room for one object as long as thousands of others. Evicting whoever is worth least until holes
// happen to meet would cost most of the store: victims lie anywhere. So a stretch of the arena is
// cleared, from the largest hole on: its neighbours go when they could be the next victim or are
// worth little more, and move out of the way when not. Then about as many bytes are evicted as the
// object has, in the stretch or for those who move out of it.
//
// A call evicts and copies a bounded amount; other requests are served between two of them. Who is
// read or written at the moment is in the way until that has ended: the ground grows on its other
// side meanwhile.
#include <algorithm>
#include <cstring>

#include "daemon/store/store.h"

namespace simm::store {

namespace {

constexpr std::uint32_t kGroundLooksPerCall = 1024;
constexpr std::uint32_t kGroundEvictionsPerCall = 128;
// An object as long as so many of those that are there gets ground: no window has more blocks.
constexpr std::uint64_t kLongInOthers = HoleWindow::kBlocksMax;

}  // namespace

std::uint64_t Store::eviction_budget(std::uint64_t extent_bytes) const noexcept {
  // A short object may have bad luck with where its victims lie.
  const std::uint64_t slack = std::min(extents_.arena_bytes() / 16, kEvictionSlackBytes);
  return kEvictionTimesMax * extent_bytes + slack;
}

bool Store::needs_ground(std::uint64_t extent_bytes, std::uint64_t evicted_bytes) const noexcept {
  const std::uint64_t mean = extents_.extent_bytes() / std::max(records_.used(), 1u);
  if (extent_bytes / kLongInOthers >= std::max(mean, ExtentAllocator::kGranuleBytes)) return true;
  // Nor is there a window for it, it seems.
  return evicted_bytes >= eviction_budget(extent_bytes) / 2 &&
         extents_.free_bytes() >= extent_bytes;
}

bool Store::over_quota(std::uint32_t account, std::uint64_t extent_bytes) const noexcept {
  const Account& holder = groups_.accounts()[account];
  // Who may have the whole arena has no quota: then it is the arena that is full, for everybody.
  return holder.quota_bytes < extents_.arena_bytes() &&
         extent_bytes > holder.quota_bytes - holder.extent_bytes;
}

GroupBook::Victim Store::victim_of(const Need& need, base::TimeNs now_ns) const noexcept {
  return over_quota(need.account, need.extent_bytes) ? groups_.quota_victim(need.account, now_ns)
                                                     : groups_.victim(need, now_ns);
}

void Store::begin_ground(const WriteRequest& request, const Need& need) noexcept {
  // Behind the last long object, so that they come to lie side by side; or at the largest hole.
  std::uint32_t from = block_at_hand();
  if (from == kNone || extents_.block(from).in_use) {
    from = kNone;
    extents_.visit_large_holes(HoleWindow::kHolesMax, [&](std::uint32_t hole) {
      if (from == kNone || extents_.block(hole).bytes > extents_.block(from).bytes) from = hole;
    });
  }
  if (from == kNone) return;
  extents_.withhold(from);
  ground_ = {};
  ground_.block = from;
  ground_.key = request.key.hash;
  ground_.need = need;
}

void Store::end_ground() noexcept {
  if (ground_.moving != kNone) end_ground_move(false);
  extents_.release(ground_.block);
  ground_ = {};
}

std::uint32_t Store::take_ground(const WriteRequest& request) noexcept {
  const std::uint64_t wanted = ExtentAllocator::rounded(request.length);
  if (!ground_.is_for(request.key.hash, wanted) || !ground_is_ready()) return kNone;
  extents_.trim(ground_.block, wanted);
  const std::uint32_t block = ground_.block;
  ground_ = {};
  return block;
}

// What a neighbour of the ground would cost. none: it is in the way.
Store::Neighbour Store::neighbour(std::uint32_t block, const GroupBook::Victim& victim,
                                  std::uint32_t times, base::TimeNs now_ns) const noexcept {
  if (block == kNone) return {};
  const Block found = extents_.block(block);
  if (!found.in_use) return {block, Neighbour::What::hole, 0};
  if (found.owner == kNone) return {};
  const Record& record = records_[found.owner];
  if (record.state != RecordState::live || record.pins > 0) return {};
  if (groups_.may_replace(record.group, victim, times, now_ns)) {
    return {block, Neighbour::What::evict, found.bytes / 2};
  }
  return {block, Neighbour::What::move, found.bytes};
}

std::uint32_t Store::evict_for_ground(const GroupBook::Victim& victim, std::uint32_t number,
                                      base::TimeNs now_ns) noexcept {
  if (ground_.evicted_bytes_left == 0) return 0;
  const std::uint64_t before = counts_.evicted_bytes;
  const std::uint32_t group = number == kNone ? victim.group : records_[number].group;
  const bool breaks_lease = number == kNone && victim.breaks_lease;
  const bool for_quota = over_quota(ground_.need.account, ground_.need.extent_bytes);
  const std::uint32_t gone = evict_from(group, breaks_lease, now_ns, number);
  const std::uint64_t bytes = counts_.evicted_bytes - before;
  ground_.evicted_bytes_left -= std::min(ground_.evicted_bytes_left, bytes);
  if (for_quota) counts_.evicted_for_quota += gone;
  return gone;
}

// Gives the object a place elsewhere, or evicts whoever has to go for that; returns how many went.
std::uint32_t Store::move_from_ground(std::uint32_t number, const GroupBook::Victim& victim,
                                      base::TimeNs now_ns) noexcept {
  Record& record = records_[number];
  ground_.place = extents_.allocate(record.length);
  if (ground_.place != kNone) {
    add_pin(record);
    ground_.moving = number;
    ground_.copied = 0;
    return 0;
  }
  // The next victim's place will do when it is long enough.
  const bool other_will_do = victim.group != kNone && groups_.groups()[victim.group].extent_bytes >=
                                                          ExtentAllocator::rounded(record.length);
  if (other_will_do) return evict_for_ground(victim, kNone, now_ns);
  if (!groups_.may_give_way(record.group, victim, now_ns)) return 0;
  return evict_for_ground(victim, number, now_ns);
}

bool Store::copy_from_ground(std::uint64_t& copies_left) noexcept {
  if (ground_.moving == kNone) return true;
  const Block source = extents_.block(records_[ground_.moving].block);
  const Block place = extents_.block(ground_.place);
  const std::uint64_t now = std::min(source.bytes - ground_.copied, copies_left);
  // SAFETY: both are extents of the allocator, of the same length, and apart.
  std::memcpy(arena_.data() + place.offset + ground_.copied,
              arena_.data() + source.offset + ground_.copied, now);
  ground_.copied += now;
  copies_left -= now;
  counts_.moved_bytes += now;
  if (ground_.copied < source.bytes) return false;
  end_ground_move(true);
  return true;
}

void Store::end_ground_move(bool done) noexcept {
  end_move(records_[ground_.moving].block, ground_.place, done);
  ground_.moving = ground_.place = kNone;
}

bool Store::grow_ground(base::TimeNs now_ns) noexcept {
  const std::uint64_t bytes_before = extents_.block(ground_.block).bytes;
  std::uint64_t copies_left = config_.moved_bytes_per_call;
  std::uint32_t evictions_left = kGroundEvictionsPerCall;
  const std::uint32_t times = times_worth(ground_.need.extent_bytes);
  GroupBook::Victim victim = victim_of(ground_.need, now_ns);
  for (std::uint32_t looks = 0; looks < kGroundLooksPerCall && !ground_is_ready(); ++looks) {
    if (!copy_from_ground(copies_left)) break;
    const Neighbour before = neighbour(extents_.before(ground_.block), victim, times, now_ns);
    const Neighbour after = neighbour(extents_.after(ground_.block), victim, times, now_ns);
    const Neighbour& next = before.cost < after.cost ? before : after;
    if (next.what == Neighbour::What::none) break;
    if (next.what == Neighbour::What::hole) {
      ground_.block = extents_.absorb(ground_.block, next.block);
      continue;
    }
    if (evictions_left == 0 || copies_left == 0) break;
    const std::uint32_t number = extents_.block(next.block).owner;
    const std::uint32_t gone = next.what == Neighbour::What::evict
                                   ? evict_for_ground(victim, number, now_ns)
                                   : move_from_ground(number, victim, now_ns);
    if (gone == 0 && ground_.moving == kNone) break;
    evictions_left -= std::min(evictions_left, gone);
    if (gone > 0) victim = victim_of(ground_.need, now_ns);
  }
  return copies_left < config_.moved_bytes_per_call || evictions_left < kGroundEvictionsPerCall ||
         bytes_before < extents_.block(ground_.block).bytes;
}

int Store::tend_ground(base::TimeNs now_ns) noexcept {
  if (now_ns - ground_.asked_ns > Ground::kUnclaimedNs) {
    end_ground();
    return 1;
  }
  const std::uint64_t bytes_before = counts_.evicted_bytes;
  const bool grew = grow_ground(now_ns);
  ground_.evicted_bytes += counts_.evicted_bytes - bytes_before;
  return grew ? 1 : 0;
}

bool Store::ask_for_ground(const WriteRequest& request, const Need& need,
                           std::uint64_t evicted_bytes, base::TimeNs now_ns) noexcept {
  if (!ground_.active()) begin_ground(request, need);
  if (!ground_.active()) return false;
  if (!ground_.is_for(request.key.hash, need.extent_bytes)) return true;  // one after the other
  const std::uint64_t budget = eviction_budget(need.extent_bytes);
  ground_.asked_ns = now_ns;
  ground_.evicted_bytes_left = budget - std::min(budget, evicted_bytes);
  const bool grew = grow_ground(now_ns);
  return grew || ground_is_ready() || victim_of(need, now_ns).group != kNone;
}

}  // namespace simm::store
