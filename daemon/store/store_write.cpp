// How objects enter the store: reserve, publish, abandon, and making room.
#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/store/store.h"
#include "simm/check.h"

namespace simm::store {

namespace {

// How much one begin_write() may evict before it says "wait": bounds the work of a turn.
constexpr std::uint32_t kEvictionsPerWriteMax = 128;

}  // namespace

void Store::keep_key(Record& record, std::string_view key) noexcept {
  SIMM_CHECK(!key.empty() && key.size() <= ipc::kKeyBytesMax);
  char* place = record.key_inline;
  if (key.size() > kInlineKeyBytes) {
    record.long_key = long_keys_.allocate();
    SIMM_CHECK(record.long_key != kNone);  // as many as records
    place = long_keys_[record.long_key].bytes;
  }
  std::memcpy(place, key.data(), key.size());
  record.key_check = key_check_of(key);
  record.key_bytes = static_cast<std::uint16_t>(key.size());
}

WriteResult Store::begin_write(const WriteRequest& request, base::TimeNs now_ns) noexcept {
  SIMM_CHECK(request.length > 0 && request.length <= ipc::kValueBytesMax);
  WriteResult result;
  if (request.mode == ipc::PutMode::if_absent) {
    const std::uint32_t present = find(request.key, now_ns);
    if (present != kNone) {
      ++counts_.already_present;
      groups_.touch(records_[present].group, now_ns);
      result.start = WriteStart::already_present;
      result.present_length = records_[present].length;
      return result;
    }
  }
  const std::uint32_t account = groups_.accounts().account_of(request.key.tenant);
  if (account == kNone) {
    ++counts_.refused_tenants;
    result.start = WriteStart::too_many_tenants;
    return result;
  }
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(request.length);
  const bool has_key_room = request.key.bytes.size() <= kInlineKeyBytes || long_keys_.grow();
  if (extent_bytes > extents_.arena_bytes() || !has_key_room ||
      extent_bytes > groups_.accounts()[account].quota_bytes) {
    ++counts_.refused_no_space;
    result.start = WriteStart::no_space;
    return result;
  }
  std::uint32_t block = kNone;
  const std::uint64_t evicted_before = counts_.evicted;
  std::uint64_t bytes_before = counts_.evicted_bytes - request.evicted_bytes;
  if (ground_.is_for(request.key.hash, extent_bytes)) {
    bytes_before -= std::exchange(ground_.evicted_bytes, 0);
  }
  const bool has_room = make_room(request, account, now_ns, block, bytes_before);
  counts_.evicted_inline += counts_.evicted - evicted_before;
  result.evicted_bytes = counts_.evicted_bytes - bytes_before;
  if (has_room) {
    result.start = WriteStart::reserved;
    result.reservation = reserve(request, account, block);
  } else if (result.evicted_bytes < eviction_budget(extent_bytes) || is_served(request) ||
             counts_.lingering > 0) {  // what is read at the moment comes free
    ++counts_.space_waits;
  } else {
    if (ground_.is_for(request.key.hash, extent_bytes)) end_ground();
    ++counts_.refused_no_space;
    result.start = WriteStart::no_space;
  }
  return result;
}

Reservation Store::reserve(const WriteRequest& request, std::uint32_t account,
                           std::uint32_t block) noexcept {
  const std::uint32_t number = records_.allocate();
  SIMM_CHECK(number != kNone);  // make_room saw to it
  meta_.note_highest(number);
  Record& record = records_[number];
  record.hash = request.key.hash;
  record.tenant = request.key.tenant;
  record.name_space = request.key.name_space;
  record.group_hash = request.key.group;
  record.expires_ns = request.ttl_ns;
  record.length = request.length;
  record.state = RecordState::reserved;
  record.if_absent = request.mode == ipc::PutMode::if_absent;
  record.depth_step = DepthQueue::step_of(request.depth);
  record.block = block;
  extents_.set_owner(block, number);
  record.place = place_at(record, extents_.block(block).offset);
  record.account = account;
  keep_key(record, request.key.bytes);
  note_place(number);
  const std::uint64_t extent_bytes = extents_.block(block).bytes;
  groups_.accounts().charge(account, extent_bytes);
  fixed_bytes_ += extent_bytes;
  ++counts_.reserved;
  return {number, arena_.subspan(extent_offset(record), record.length)};
}

bool Store::is_served(const WriteRequest& request) const noexcept {
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(request.length);
  return job_.serves(extent_bytes) ||
         (ground_.is_for(request.key.hash, extent_bytes) && ground_is_ready());
}

bool Store::make_room(const WriteRequest& request, std::uint32_t account, base::TimeNs now_ns,
                      std::uint32_t& block, std::uint64_t bytes_before) noexcept {
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(request.length);
  const std::uint64_t budget = eviction_budget(extent_bytes);
  std::uint32_t evicted = 0;
  bool copied = false;          // a part of the job, once in a call
  bool cleared = false;         // the dear search for one, likewise
  bool asked = false;           // for ground, likewise
  std::uint32_t search_at = 0;  // evictions, after which it is worth to look for a window again
  while (true) {
    const Need need{account, extent_bytes, records_.full() ? Scarce::records : Scarce::bytes};
    const bool for_quota = over_quota(account, extent_bytes);
    const bool only_bytes = !records_.full() && records_.grow();
    const std::uint64_t evicted_bytes = counts_.evicted_bytes - bytes_before;
    if (!for_quota && only_bytes) {
      block = take_ground(request);
      if (block == kNone) block = extents_.allocate(request.length);
      if (block != kNone) return true;
    }
    if (only_bytes && !is_served(request) && needs_ground(extent_bytes, evicted_bytes)) {
      if (std::exchange(asked, true)) return false;
      if (ask_for_ground(request, need, evicted_bytes, now_ns)) continue;
    } else if (!for_quota && only_bytes) {
      if (job_.active()) {
        const bool first = !std::exchange(copied, true);
        if (first) continue_moves(now_ns);
        if (!job_.active()) continue;
        if (job_.serves(extent_bytes)) return false;
      } else if (evicted >= search_at && extents_.free_bytes() >= extent_bytes) {
        search_at = 2 * evicted + 1;
        if (begin_moves(extent_bytes)) continue;
        if (!std::exchange(cleared, true) && begin_clearing(need, now_ns)) continue;
      }
    }
    if (evicted >= kEvictionsPerWriteMax || evicted_bytes >= budget) return false;
    const std::uint32_t gone = evict_next(request, need, for_quota, now_ns);
    if (gone == 0) return false;
    evicted += gone;
  }
}

std::uint32_t Store::evict_next(const WriteRequest& request, const Need& need, bool for_quota,
                                base::TimeNs now_ns) noexcept {
  const GroupBook::Victim victim =
      for_quota ? groups_.quota_victim(need.account, now_ns) : groups_.victim(need, now_ns);
  // Nothing else can go: a replacement may cost the old object.
  if (victim.group == kNone) return drop_replaced(request, now_ns) ? 1 : 0;
  const std::uint32_t gone = evict_from(victim.group, victim.breaks_lease, now_ns);
  if (for_quota) counts_.evicted_for_quota += gone;
  return gone;
}

void Store::count_eviction(const Record& record) noexcept {
  const std::uint64_t extent_bytes = extents_.block(record.block).bytes;
  ++counts_.evicted;
  counts_.evicted_bytes += extent_bytes;
  TenantTally& tally = groups_.accounts().tally(record.account);
  ++tally.evicted;
  tally.evicted_bytes += extent_bytes;
}

bool Store::drop_replaced(const WriteRequest& request, base::TimeNs now_ns) noexcept {
  if (request.mode != ipc::PutMode::replace) return false;
  const std::uint32_t old = find(request.key, now_ns);
  if (old == kNone || records_[old].pins > 0) return false;
  count_lease_loss(records_[old], LeaseLoss::replaced, now_ns);
  count_eviction(records_[old]);
  drop(old);
  return true;
}

std::uint32_t Store::evict_from(std::uint32_t group, bool breaks_lease, base::TimeNs now_ns,
                                std::uint32_t first) noexcept {
  // A group may be as large as its maker likes: a part goes now, the rest in the next rounds.
  constexpr std::uint32_t kMembersPerStepMax = 16;
  std::uint32_t evicted = 0;
  bool last = false;
  groups_.note_eviction(group);
  while (!last && evicted < kMembersPerStepMax) {
    Group& g = groups_.group(group);
    const std::uint32_t member = evicted == 0 && first != kNone ? first : g.members.front();
    last = g.members.next(records_, g.members.front()) == kNone;
    if (breaks_lease) count_lease_loss(records_[member], LeaseLoss::lease_budget, now_ns);
    count_eviction(records_[member]);
    counts_.spectrum.note_eviction(now_ns - std::min(g.used_ns, now_ns), g.uses);
    drop(member);
    ++evicted;
  }
  return evicted;
}

ObjectLength Store::publish(const Reservation& reservation, std::uint64_t digest, base::Epoch epoch,
                            base::TimeNs now_ns) noexcept {
  const std::uint32_t number = reservation.record;
  Record& record = records_[number];
  SIMM_CHECK(record.state == RecordState::reserved);
  const ObjectKey key{record.hash, record.group_hash, record.tenant, record.name_space,
                      key_of(record)};
  const std::uint32_t present = find(key, now_ns);
  if (present != kNone && record.if_absent) {
    ++counts_.already_present;
    --counts_.reserved;
    free_record(number);
    return records_[present].length;
  }
  record.state = RecordState::live;
  fixed_bytes_ -= extents_.block(record.block).bytes;
  record.generation = ++generation_;
  record.epoch = epoch;
  record.payload_digest = digest;
  if (record.expires_ns != 0) record.expires_ns += now_ns;
  record.place = place_at(record, extent_offset(record));
  // The object is there from here on, for the next life of the process as well. A replaced one
  // still is too, until it is detached: the higher generation counts.
  seal(record);
  const std::uint32_t group = groups_.find_or_make(record, now_ns);
  const std::uint64_t group_bytes = groups_.group(group).extent_bytes;
  groups_.add_member(records_, group, number, extents_.block(record.block).bytes);
  groups_.touch(group, now_ns);
  if (record.expires_ns != 0) ttl_wheel_.schedule(records_, number, record.expires_ns);
  if (present != kNone) {
    index_.replace(record.hash.low, present, number);
    detach(present);
    ++counts_.replacements;
  } else {
    index_.insert(record.hash.low, number);
  }
  const Group& joined = groups_.group(group);
  if (joined.pinned && joined.extent_bytes > group_bytes &&
      !groups_.may_pin(groups_.accounts()[joined.account], 0)) {
    groups_.unpin(group, now_ns);
    ++counts_.pins_outgrown;
  }
  --counts_.reserved;
  ++counts_.published;
  count_in(record);
  return record.length;
}

void Store::abandon(const Reservation& reservation) noexcept {
  SIMM_CHECK(records_[reservation.record].state == RecordState::reserved);
  --counts_.reserved;
  ++counts_.abandoned;
  free_record(reservation.record);
}

int Store::do_work(base::TimeNs now_ns) noexcept {
  constexpr int kLeasesPerTurn = 64;
  constexpr int kExpiriesPerTurn = 16;
  int work = groups_.end_leases(now_ns, kLeasesPerTurn);
  work += ttl_wheel_.advance(records_, now_ns, kExpiriesPerTurn, [&](std::uint32_t number) {
    if (records_[number].expires_ns > now_ns) {
      ttl_wheel_.schedule(records_, number, records_[number].expires_ns);
      return;
    }
    ++counts_.expired;
    drop(number);
  });
  if (ownership_ != nullptr) work += sweep_slots(now_ns);
  if (job_.active()) {
    continue_moves(now_ns);
    ++work;
  }
  if (ground_.active()) work += tend_ground(now_ns);
  return work + evict_in_background(now_ns);
}

bool Store::stock_wants(Scarce& scarce) noexcept {
  const auto wants = [](std::uint64_t free, const Stock& stock, bool& evicting) {
    evicting = free < (evicting ? stock.high : stock.low);
    return evicting;
  };
  const bool bytes = wants(free_soon(), byte_stock_, evicting_bytes_);
  const bool records = wants(free_records(), record_stock_, evicting_records_);
  scarce = bytes ? Scarce::bytes : Scarce::records;
  return bytes || records;
}

int Store::evict_in_background(base::TimeNs now_ns) noexcept {
  constexpr int kEvictionsPerTurn = 16;
  int evicted = 0;
  Need stock;
  while (evicted < kEvictionsPerTurn && stock_wants(stock.scarce)) {
    const std::uint32_t victim = groups_.victim(stock, now_ns).group;
    if (victim == kNone) {
      evicting_bytes_ = evicting_records_ = false;
      break;
    }
    evicted += static_cast<int>(evict_from(victim, false, now_ns));
  }
  const AccountBook& accounts = groups_.accounts();
  crowded_ = accounts.next_crowded(crowded_);
  while (crowded_ != kNone && accounts[crowded_].crowded && evicted < kEvictionsPerTurn) {
    const GroupBook::Victim victim = groups_.quota_victim(crowded_, now_ns);
    if (victim.group == kNone || victim.breaks_lease) break;
    const std::uint32_t gone = evict_from(victim.group, false, now_ns);
    counts_.evicted_for_quota += gone;
    evicted += static_cast<int>(gone);
  }
  return evicted;
}

}  // namespace simm::store
