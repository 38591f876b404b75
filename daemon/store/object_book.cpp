#include "daemon/store/object_book.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/store/pool/record_seal.h"
#include "simm/check.h"

namespace simm::store {

ObjectBook::ObjectBook(const StoreConfig& limits, std::span<std::byte> payload, ReservedMemory own,
                       const StoreTables& tables, const MetaTable& kept,
                       std::unique_ptr<EvictionPolicy> policy)
    : config(limits),
      arena(payload),
      memory(std::move(own)),
      meta(kept),
      records(meta.records()),
      long_keys(meta.long_keys()),
      index(tables.index),
      extents(tables.blocks, payload.size()),
      groups(config, extents.arena_bytes(), tables.groups, tables.group_index, std::move(policy)) {}

std::string_view ObjectBook::key_of(const Record& record) const noexcept {
  const char* bytes =
      record.long_key == kNone ? record.key_inline : long_keys[record.long_key].bytes;
  return {bytes, record.key_bytes};
}

bool ObjectBook::is(const Record& record, const ObjectKey& key) const noexcept {
  return record.hash == key.hash && record.tenant == key.tenant &&
         record.name_space == key.name_space && key_of(record) == key.bytes;
}

std::uint32_t ObjectBook::find(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t found = index.find(
      key.hash.low, [&](std::uint32_t candidate) { return is(records[candidate], key); });
  if (found == kNone) return kNone;
  const Record& record = records[found];
  if (ownership != nullptr && disowned(record)) {
    drop_disowned(found, now_ns);
    return kNone;
  }
  if (record.expires_ns == 0 || now_ns < record.expires_ns) return found;
  ++counts.expired;
  drop(found, base::KeyEventKind::expired);
  return kNone;
}

void ObjectBook::count_lease_loss(const Record& record, LeaseLoss cause,
                                  base::TimeNs now_ns) noexcept {
  if (record.expires_ns != 0 && record.expires_ns <= now_ns) return;
  if (groups.group(record.group).lease_until_ns <= now_ns) return;
  ++counts.lost_in_lease[static_cast<std::size_t>(cause)];
}

void ObjectBook::keep_slots(const base::SlotOwnership& slots,
                            const base::SlotDepartures* leaving) noexcept {
  ownership = &slots;
  departures = leaving;
  sweep_next = 1;
}

void ObjectBook::drop_disowned(std::uint32_t number, base::TimeNs now_ns) noexcept {
  ++counts.disowned;
  count_lease_loss(records[number], LeaseLoss::slot_lost, now_ns);
  drop(number, base::KeyEventKind::moved);
}

// Records made behind the sweep are younger than the map, so one pass finds everything. It costs
// objects nothing to be found by slot, and the sweep a few cache misses for each record.
int ObjectBook::sweep_slots(base::TimeNs now_ns) noexcept {
  constexpr int kRecordsPerTurn = 64;
  int looked = 0;
  for (; looked < kRecordsPerTurn && sweep_next <= records.highest(); ++looked, ++sweep_next) {
    const Record& record = records[sweep_next];
    if (record.state == RecordState::live && disowned(record)) drop_disowned(sweep_next, now_ns);
  }
  if (sweep_next > records.highest()) ownership = nullptr;
  return looked;
}

void ObjectBook::count_in(const Record& record) noexcept {
  ++counts.objects;
  counts.payload_bytes += record.length;
  counts.spectrum.add(record.length);
  TenantTally& tally = groups.accounts().tally(record.account);
  ++tally.objects;
  tally.payload_bytes += record.length;
}

void ObjectBook::count_out(const Record& record) noexcept {
  --counts.objects;
  if (record.unverified) --counts.unverified;
  counts.payload_bytes -= record.length;
  counts.spectrum.remove(record.length);
  TenantTally& tally = groups.accounts().tally(record.account);
  --tally.objects;
  tally.payload_bytes -= record.length;
}

base::KeyEvent ObjectBook::event_of(const Record& record, base::KeyEventKind kind) const noexcept {
  base::KeyEvent event{0, record.hash, record.tenant, record.name_space, record.length, kind};
  event.token = key_events.token_of(key_of(record));
  return event;
}

// A damaged record is told of nobody: its tenant may be another one's by now. Its listeners see a
// gap.
void ObjectBook::tell_listener(const Record& record, base::KeyEventKind kind) noexcept {
  if (!is_sealed(record)) return key_events.lose();
  key_events.tell(event_of(record, kind));
}

void ObjectBook::drop(std::uint32_t number, base::KeyEventKind why) noexcept {
  tell(records[number], why);  // while its seal is there
  index.remove(records[number].hash.low, number);
  detach(number);
}

void ObjectBook::detach(std::uint32_t number) noexcept {
  Record& record = records[number];
  SIMM_CHECK(record.state == RecordState::live);
  unseal(record);  // before anybody hears of it, and before anything of it is used again
  ttl_wheel.cancel(records, number);
  groups.remove_member(records, number, extents.block(record.block).bytes);
  count_out(record);
  if (record.pins > 0) {
    record.state = RecordState::dead;
    ++counts.lingering;
    return;
  }
  free_record(number);
}

void ObjectBook::free_record(std::uint32_t number) noexcept {
  Record& record = records[number];
  if (record.state != RecordState::live) {
    fixed_bytes -= ExtentAllocator::rounded(record.length);
  }
  groups.accounts().discharge(record.account, extents.block(record.block).bytes);
  extents.release(record.block);
  if (record.long_key != kNone) long_keys.release(record.long_key);
  records.release(number);
}

void ObjectBook::count_eviction(const Record& record) noexcept {
  const std::uint64_t extent_bytes = extents.block(record.block).bytes;
  ++counts.evicted;
  counts.evicted_bytes += extent_bytes;
  TenantTally& tally = groups.accounts().tally(record.account);
  ++tally.evicted;
  tally.evicted_bytes += extent_bytes;
}

std::uint32_t ObjectBook::evict_from(std::uint32_t group, bool breaks_lease, base::TimeNs now_ns,
                                     std::uint32_t first) noexcept {
  // A group may be as large as its maker likes: a part goes now, the rest in the next rounds.
  constexpr std::uint32_t kMembersPerStepMax = 16;
  std::uint32_t evicted = 0;
  bool last = false;
  groups.note_eviction(group);
  while (!last && evicted < kMembersPerStepMax) {
    Group& g = groups.group(group);
    const std::uint32_t member = evicted == 0 && first != kNone ? first : g.members.front();
    last = g.members.next(records, g.members.front()) == kNone;
    if (breaks_lease) count_lease_loss(records[member], LeaseLoss::lease_budget, now_ns);
    count_eviction(records[member]);
    counts.spectrum.note_eviction(now_ns - std::min(g.used_ns, now_ns), g.uses);
    drop(member, base::KeyEventKind::evicted);
    ++evicted;
  }
  return evicted;
}

bool ObjectBook::over_quota(std::uint32_t account, std::uint64_t extent_bytes) const noexcept {
  const Account& holder = groups.accounts()[account];
  // Who may have the whole arena has no quota: then it is the arena that is full, for everybody.
  return holder.quota_bytes < extents.arena_bytes() &&
         extent_bytes > holder.quota_bytes - holder.extent_bytes;
}

GroupBook::Victim ObjectBook::victim_of(const Need& need, base::TimeNs now_ns) const noexcept {
  return over_quota(need.account, need.extent_bytes) ? groups.quota_victim(need.account, now_ns)
                                                     : groups.victim(need, now_ns);
}

bool ObjectBook::copy_extent(const Block& source, const Block& place, std::uint64_t& copied,
                             std::uint64_t& left) noexcept {
  const std::uint64_t now = std::min(source.bytes - copied, left);
  // SAFETY: both are extents of the allocator, of the same length, and apart.
  std::memcpy(arena.data() + place.offset + copied, arena.data() + source.offset + copied, now);
  copied += now;
  left -= now;
  counts.moved_bytes += now;
  return copied == source.bytes;
}

void ObjectBook::end_move(std::uint32_t block, std::uint32_t place, bool done) noexcept {
  const std::uint32_t number = extents.block(block).owner;
  Record& record = records[number];
  const bool unused = end_pin(record);
  if (place != kNone && done && unused && record.state == RecordState::live) {
    // A damaged record stays one, and the next reader finds out.
    record.block = place;
    move_to(record, extents.block(place).offset);
    ++counts.moved;
    extents.set_owner(place, number);
    extents.release(block);
    return;
  }
  if (place != kNone) extents.release(place);
  if (!unused || record.state != RecordState::dead) return;
  --counts.lingering;
  free_record(number);
}

}  // namespace simm::store
