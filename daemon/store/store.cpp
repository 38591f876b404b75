#include "daemon/store/store.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "daemon/store/pool/record_seal.h"
#include "simm/check.h"

namespace simm::store {

std::string_view Store::key_of(const Record& record) const noexcept {
  const char* bytes =
      record.long_key == kNone ? record.key_inline : long_keys_[record.long_key].bytes;
  return {bytes, record.key_bytes};
}

bool Store::is(const Record& record, const ObjectKey& key) const noexcept {
  return record.hash == key.hash && record.tenant == key.tenant &&
         record.name_space == key.name_space && key_of(record) == key.bytes;
}

std::uint32_t Store::find(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t found = index_.find(
      key.hash.low, [&](std::uint32_t candidate) { return is(records_[candidate], key); });
  if (found == kNone) return kNone;
  const Record& record = records_[found];
  if (ownership_ != nullptr && disowned(record)) {
    drop_disowned(found, now_ns);
    return kNone;
  }
  if (record.expires_ns == 0 || now_ns < record.expires_ns) return found;
  ++counts_.expired;
  drop(found);
  return kNone;
}

base::TimeNs Store::clamped_lease(base::TimeNs lease_ns) const noexcept {
  return std::min(lease_ns == 0 ? config_.lease_default_ns : lease_ns, config_.lease_max_ns);
}

Status Store::begin_read(const ObjectKey& key, base::TimeNs lease_ns, base::TimeNs now_ns,
                         ReadPin& pin, UseOrder order) noexcept {
  // Everything that will be read comes from far away: ask for each line as soon as its address is
  // known, so that a cold read waits for three misses in a row, not for seven.
  prefetch_cold(prefetch_record(key.hash));
  const std::uint32_t number = find(key, now_ns);
  if (number == kNone) {
    ++counts_.read_misses;
    ++groups_.accounts().tally(groups_.accounts().account_of(key.tenant)).read_misses;
    return Status::not_found;
  }
  Record& record = records_[number];
  groups_.prefetch(record.group);
  prefetch_payload(record);
  if (!is_sealed(record)) {
    ++counts_.damaged_records;
    ++counts_.quarantined;
    count_lease_loss(record, LeaseLoss::corrupt, now_ns);
    drop(number);
    return Status::corrupt;
  }
  if (lease_ns != kNoLease && order == UseOrder::youngest) {
    groups_.lease(record.group, now_ns, clamped_lease(lease_ns));
  } else if (lease_ns != kNoLease) {
    groups_.extend_lease(record.group, now_ns, clamped_lease(lease_ns));
  }
  add_pin(record);
  ++counts_.reads;
  ++groups_.accounts().tally(record.account).reads;
  pin.record = number;
  // SAFETY: the seal has just proved that offset and length are those of the extent.
  pin.bytes = arena_.subspan(extent_offset(record), record.length);
  pin.digest = record.payload_digest;
  pin.generation = record.generation;
  pin.unverified = record.unverified;
  return Status::ok;
}

void Store::end_read(const ReadPin& pin) noexcept {
  Record& record = records_[pin.record];
  SIMM_CHECK(record.pins > 0 && record.generation == pin.generation);
  if (end_pin(record) && record.state == RecordState::dead) {
    --counts_.lingering;
    free_record(pin.record);
  }
}

void Store::note_verified(const ReadPin& pin) noexcept {
  Record& record = records_[pin.record];
  SIMM_CHECK(record.pins > 0 && record.generation == pin.generation);
  if (!record.unverified) return;
  record.unverified = false;
  if (record.state == RecordState::live) --counts_.unverified;
}

void Store::quarantine(const ReadPin& pin, base::TimeNs now_ns) noexcept {
  Record& record = records_[pin.record];
  SIMM_CHECK(record.pins > 0 && record.generation == pin.generation);
  if (record.state != RecordState::live) return;  // another reader was faster
  ++counts_.quarantined;
  count_lease_loss(record, LeaseLoss::corrupt, now_ns);
  drop(pin.record);
}

ObjectLength Store::exists(const ObjectKey& key, base::TimeNs lease_ns,
                           base::TimeNs now_ns) noexcept {
  const std::uint32_t number = find(key, now_ns);
  if (number == kNone) {
    ++counts_.exists_misses;
    ++groups_.accounts().tally(groups_.accounts().account_of(key.tenant)).exists_misses;
    return 0;
  }
  ++counts_.exists_hits;
  // The group has it on a line that is read anyway.
  ++groups_.accounts().tally(groups_.group(records_[number].group).account).exists_hits;
  groups_.keep(records_[number].group, now_ns, clamped_lease(lease_ns), true);
  return records_[number].length;
}

bool Store::remove(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = find(key, now_ns);
  if (number == kNone) return false;
  ++counts_.removed;
  count_lease_loss(records_[number], LeaseLoss::removed, now_ns);
  drop(number);
  return true;
}

Status Store::pin(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = find(key, now_ns);
  if (number == kNone) return Status::not_found;
  if (groups_.pin(records_[number].group)) return Status::ok;
  ++counts_.pins_refused;
  return Status::no_space;
}

Status Store::unpin(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = find(key, now_ns);
  if (number == kNone) return Status::not_found;
  groups_.unpin(records_[number].group, now_ns);
  return Status::ok;
}

void Store::touch(const ObjectKey& key, base::TimeNs lease_ns, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = find(key, now_ns);
  if (number == kNone) return;
  const std::uint32_t group = records_[number].group;
  if (lease_ns == kNoLease) {
    groups_.touch(group, now_ns);
  } else {
    groups_.lease(group, now_ns, clamped_lease(lease_ns));
  }
}

void Store::count_lease_loss(const Record& record, LeaseLoss cause, base::TimeNs now_ns) noexcept {
  if (record.expires_ns != 0 && record.expires_ns <= now_ns) return;
  if (groups_.group(record.group).lease_until_ns <= now_ns) return;
  ++counts_.lost_in_lease[static_cast<std::size_t>(cause)];
}

// ---- lost slots ----

void Store::keep_slots(const base::SlotOwnership& ownership) noexcept {
  ownership_ = &ownership;
  sweep_next_ = 1;
}

void Store::drop_disowned(std::uint32_t number, base::TimeNs now_ns) noexcept {
  ++counts_.disowned;
  count_lease_loss(records_[number], LeaseLoss::slot_lost, now_ns);
  drop(number);
}

// Records made behind the sweep are younger than the map, so one pass finds everything. It costs
// objects nothing to be found by slot, and the sweep a few cache misses for each record.
int Store::sweep_slots(base::TimeNs now_ns) noexcept {
  constexpr int kRecordsPerTurn = 64;
  int looked = 0;
  for (; looked < kRecordsPerTurn && sweep_next_ <= records_.highest(); ++looked, ++sweep_next_) {
    const Record& record = records_[sweep_next_];
    if (record.state == RecordState::live && disowned(record)) drop_disowned(sweep_next_, now_ns);
  }
  if (sweep_next_ > records_.highest()) ownership_ = nullptr;
  return looked;
}

void Store::add_pin(Record& record) noexcept {
  if (record.pins++ == 0) fixed_bytes_ += ExtentAllocator::rounded(record.length);
}

bool Store::end_pin(Record& record) noexcept {
  if (--record.pins > 0) return false;
  if (record.state == RecordState::live) {
    fixed_bytes_ -= ExtentAllocator::rounded(record.length);
  }
  return true;
}

void Store::count_in(const Record& record) noexcept {
  ++counts_.objects;
  counts_.payload_bytes += record.length;
  counts_.spectrum.add(record.length);
  TenantTally& tally = groups_.accounts().tally(record.account);
  ++tally.objects;
  tally.payload_bytes += record.length;
}

void Store::count_out(const Record& record) noexcept {
  --counts_.objects;
  if (record.unverified) --counts_.unverified;
  counts_.payload_bytes -= record.length;
  counts_.spectrum.remove(record.length);
  TenantTally& tally = groups_.accounts().tally(record.account);
  --tally.objects;
  tally.payload_bytes -= record.length;
}

void Store::drop(std::uint32_t number) noexcept {
  index_.remove(records_[number].hash.low, number);
  detach(number);
}

void Store::detach(std::uint32_t number) noexcept {
  Record& record = records_[number];
  SIMM_CHECK(record.state == RecordState::live);
  unseal(record);  // before anybody hears of it, and before anything of it is used again
  ttl_wheel_.cancel(records_, number);
  groups_.remove_member(records_, number, extents_.block(record.block).bytes);
  count_out(record);
  if (record.pins > 0) {
    record.state = RecordState::dead;
    ++counts_.lingering;
    return;
  }
  free_record(number);
}

void Store::free_record(std::uint32_t number) noexcept {
  Record& record = records_[number];
  if (record.state != RecordState::live) {
    fixed_bytes_ -= ExtentAllocator::rounded(record.length);
  }
  groups_.accounts().discharge(record.account, extents_.block(record.block).bytes);
  extents_.release(record.block);
  if (record.long_key != kNone) long_keys_.release(record.long_key);
  records_.release(number);
}

StoreStats Store::stats() const noexcept {
  StoreStats s = counts_;
  s.groups = groups_.groups().used();
  s.arena_bytes = extents_.arena_bytes();
  s.extent_bytes = extents_.extent_bytes();
  s.free_bytes = extents_.free_bytes();
  s.leased_bytes = groups_.leased_bytes();
  s.pinned_bytes = groups_.pinned_bytes();
  s.pinned_groups = groups_.pinned_groups();
  s.holes = extents_.holes();
  s.largest_hole_bytes = extents_.largest_hole_bytes();
  s.movable_bytes = extents_.extent_bytes() - held_bytes() - fixed_bytes_;
  s.spectrum.reused_by_age = groups_.reused_by_age();
  return s;
}

}  // namespace simm::store
