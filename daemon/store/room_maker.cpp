#include "daemon/store/room_maker.h"

#include <utility>

namespace simm::store {
namespace {

// How much one put may evict before it has to ask again: bounds the work of a turn.
constexpr std::uint32_t kEvictionsPerWriteMax = 128;

}  // namespace

RoomMaker::Room RoomMaker::make_room(const WriteRequest& request, std::uint32_t account,
                                     base::TimeNs now_ns) noexcept {
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(request.length);
  const std::uint64_t evicted_before = book_.counts.evicted;
  std::uint64_t bytes_before = book_.counts.evicted_bytes - request.evicted_bytes;
  if (ground_.is_for(request.key.hash, extent_bytes)) bytes_before -= ground_.take_evicted_bytes();
  Room room;
  room.block = find_room(request, account, now_ns, bytes_before);
  book_.counts.evicted_inline += book_.counts.evicted - evicted_before;
  room.evicted_bytes = book_.counts.evicted_bytes - bytes_before;
  if (room.block != kNone) return room;
  room.refused = room.evicted_bytes >= eviction_budget(book_.extents.arena_bytes(), extent_bytes) &&
                 !is_served(request) &&
                 book_.counts.lingering == 0;  // what is read at the moment comes free
  if (room.refused && ground_.is_for(request.key.hash, extent_bytes)) ground_.end();
  return room;
}

int RoomMaker::do_work(base::TimeNs now_ns) noexcept {
  int work = 0;
  if (compactor_.active()) {
    compactor_.advance(now_ns);
    ++work;
  }
  if (ground_.active()) work += ground_.do_work(now_ns);
  return work + stocks_.do_work(compactor_.free_soon_bytes(), now_ns);
}

bool RoomMaker::is_served(const WriteRequest& request) const noexcept {
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(request.length);
  return compactor_.serves(extent_bytes) ||
         (ground_.is_for(request.key.hash, extent_bytes) && ground_.is_ready());
}

std::uint32_t RoomMaker::find_room(const WriteRequest& request, std::uint32_t account,
                                   base::TimeNs now_ns, std::uint64_t bytes_before) noexcept {
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(request.length);
  const std::uint64_t budget = eviction_budget(book_.extents.arena_bytes(), extent_bytes);
  std::uint32_t evicted = 0;
  bool copied = false;          // a part of the job, once in a call
  bool cleared = false;         // the dear search for one, likewise
  bool asked = false;           // for ground, likewise
  std::uint32_t search_at = 0;  // evictions, after which it is worth to look for a window again
  while (true) {
    const Need need{account, extent_bytes, book_.records.full() ? Scarce::records : Scarce::bytes};
    const bool for_quota = book_.over_quota(account, extent_bytes);
    const bool only_bytes = !book_.records.full() && book_.records.grow();
    const std::uint64_t evicted_bytes = book_.counts.evicted_bytes - bytes_before;
    if (!for_quota && only_bytes) {
      std::uint32_t block = ground_.take(request.key.hash, extent_bytes);
      if (block == kNone) block = book_.extents.allocate(request.length);
      if (block != kNone) return block;
    }
    if (only_bytes && !is_served(request) && ground_.is_needed(extent_bytes, evicted_bytes)) {
      if (std::exchange(asked, true)) return kNone;
      if (ground_.ask(request.key.hash, need, evicted_bytes, now_ns)) continue;
    } else if (!for_quota && only_bytes) {
      if (compactor_.active()) {
        const bool first = !std::exchange(copied, true);
        if (first) compactor_.advance(now_ns);
        if (!compactor_.active()) continue;
        if (compactor_.serves(extent_bytes)) return kNone;
      } else if (evicted >= search_at && book_.extents.free_bytes() >= extent_bytes) {
        search_at = 2 * evicted + 1;
        if (compactor_.begin_moves(extent_bytes)) continue;
        if (!std::exchange(cleared, true) && compactor_.begin_clearing(need, now_ns)) continue;
      }
    }
    if (evicted >= kEvictionsPerWriteMax || evicted_bytes >= budget) return kNone;
    const std::uint32_t gone = evict_next(request, need, for_quota, now_ns);
    if (gone == 0) return kNone;
    evicted += gone;
  }
}

std::uint32_t RoomMaker::evict_next(const WriteRequest& request, const Need& need, bool for_quota,
                                    base::TimeNs now_ns) noexcept {
  const GroupBook::Victim victim = for_quota ? book_.groups.quota_victim(need.account, now_ns)
                                             : book_.groups.victim(need, now_ns);
  // Nothing else can go: a replacement may cost the old object.
  if (victim.group == kNone) return drop_replaced(request, now_ns) ? 1 : 0;
  const std::uint32_t gone = book_.evict_from(victim.group, victim.breaks_lease, now_ns);
  if (for_quota) book_.counts.evicted_for_quota += gone;
  return gone;
}

bool RoomMaker::drop_replaced(const WriteRequest& request, base::TimeNs now_ns) noexcept {
  if (request.mode != ipc::PutMode::replace) return false;
  const std::uint32_t old = book_.find(request.key, now_ns);
  if (old == kNone || book_.records[old].pins > 0) return false;
  book_.count_lease_loss(book_.records[old], LeaseLoss::replaced, now_ns);
  book_.count_eviction(book_.records[old]);
  book_.drop(old, base::KeyEventKind::evicted);
  return true;
}

}  // namespace simm::store
