#include "daemon/store/store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/store/eviction/depth_queue.h"
#include "daemon/store/pool/record_seal.h"
#include "daemon/store/store_recovery.h"
#include "simm/check.h"

namespace simm::store {

base::TimeNs Store::clamped_lease(base::TimeNs lease_ns) const noexcept {
  return std::min(lease_ns == 0 ? book_.config.lease_default_ns : lease_ns,
                  book_.config.lease_max_ns);
}

Status Store::begin_read(const ObjectKey& key, base::TimeNs lease_ns, base::TimeNs now_ns,
                         ReadPin& pin, UseOrder order) noexcept {
  // Ask for each line as soon as its address is known: a cold read then waits for three misses in a
  // row, not for seven.
  prefetch_cold(prefetch_record(key.hash));
  const std::uint32_t number = book_.find(key, now_ns);
  if (number == kNone) {
    ++book_.counts.read_misses;
    ++book_.groups.accounts().tally(book_.groups.accounts().account_of(key.tenant)).read_misses;
    return Status::not_found;
  }
  Record& record = book_.records[number];
  book_.groups.prefetch(record.group);
  prefetch_payload(record);
  if (!is_sealed(record)) {
    ++book_.counts.damaged_records;
    ++book_.counts.quarantined;
    book_.count_lease_loss(record, LeaseLoss::corrupt, now_ns);
    book_.drop(number, base::KeyEventKind::damaged);
    return Status::corrupt;
  }
  if (lease_ns != kNoLease && order == UseOrder::youngest) {
    book_.groups.lease(record.group, now_ns, clamped_lease(lease_ns));
  } else if (lease_ns != kNoLease) {
    book_.groups.extend_lease(record.group, now_ns, clamped_lease(lease_ns));
  }
  book_.add_pin(record);
  ++book_.counts.reads;
  ++book_.groups.accounts().tally(record.account).reads;
  pin.record = number;
  // SAFETY: the seal has just proved that offset and length are those of the extent.
  pin.bytes = book_.arena.subspan(extent_offset(record), record.length);
  pin.digest = record.payload_digest;
  pin.generation = record.generation;
  pin.unverified = record.unverified;
  return Status::ok;
}

void Store::end_read(const ReadPin& pin) noexcept {
  Record& record = book_.records[pin.record];
  SIMM_CHECK(record.pins > 0 && record.generation == pin.generation);
  if (book_.end_pin(record) && record.state == RecordState::dead) {
    --book_.counts.lingering;
    book_.free_record(pin.record);
  }
}

void Store::note_verified(const ReadPin& pin) noexcept {
  Record& record = book_.records[pin.record];
  SIMM_CHECK(record.pins > 0 && record.generation == pin.generation);
  if (!record.unverified) return;
  record.unverified = false;
  if (record.state == RecordState::live) --book_.counts.unverified;
}

void Store::quarantine(const ReadPin& pin, base::TimeNs now_ns) noexcept {
  Record& record = book_.records[pin.record];
  SIMM_CHECK(record.pins > 0 && record.generation == pin.generation);
  if (record.state != RecordState::live) return;  // another reader was faster
  ++book_.counts.quarantined;
  book_.count_lease_loss(record, LeaseLoss::corrupt, now_ns);
  book_.drop(pin.record, base::KeyEventKind::damaged);
}

ObjectLength Store::exists(const ObjectKey& key, base::TimeNs lease_ns,
                           base::TimeNs now_ns) noexcept {
  const std::uint32_t number = book_.find(key, now_ns);
  if (number == kNone) {
    ++book_.counts.exists_misses;
    ++book_.groups.accounts().tally(book_.groups.accounts().account_of(key.tenant)).exists_misses;
    return 0;
  }
  ++book_.counts.exists_hits;
  // The group has it on a line that is read anyway.
  ++book_.groups.accounts()
        .tally(book_.groups.group(book_.records[number].group).account)
        .exists_hits;
  book_.groups.keep(book_.records[number].group, now_ns, clamped_lease(lease_ns), true);
  return book_.records[number].length;
}

bool Store::remove(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = book_.find(key, now_ns);
  if (number == kNone) return false;
  ++book_.counts.removed;
  book_.count_lease_loss(book_.records[number], LeaseLoss::removed, now_ns);
  book_.drop(number, base::KeyEventKind::removed);
  return true;
}

Status Store::pin(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = book_.find(key, now_ns);
  if (number == kNone) return Status::not_found;
  if (book_.groups.pin(book_.records[number].group)) return Status::ok;
  ++book_.counts.pins_refused;
  return Status::no_space;
}

Status Store::unpin(const ObjectKey& key, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = book_.find(key, now_ns);
  if (number == kNone) return Status::not_found;
  book_.groups.unpin(book_.records[number].group, now_ns);
  return Status::ok;
}

void Store::touch(const ObjectKey& key, base::TimeNs lease_ns, base::TimeNs now_ns) noexcept {
  const std::uint32_t number = book_.find(key, now_ns);
  if (number == kNone) return;
  const std::uint32_t group = book_.records[number].group;
  if (lease_ns == kNoLease) {
    book_.groups.touch(group, now_ns);
  } else {
    book_.groups.lease(group, now_ns, clamped_lease(lease_ns));
  }
}

// Writing.

void Store::keep_key(Record& record, std::string_view key) noexcept {
  SIMM_CHECK(!key.empty() && key.size() <= ipc::kKeyBytesMax);
  char* place = record.key_inline;
  if (key.size() > kInlineKeyBytes) {
    record.long_key = book_.long_keys.allocate();
    SIMM_CHECK(record.long_key != kNone);  // as many as records
    place = book_.long_keys[record.long_key].bytes;
  }
  std::memcpy(place, key.data(), key.size());
  record.key_check = key_check_of(key);
  record.key_bytes = static_cast<std::uint16_t>(key.size());
}

WriteResult Store::begin_write(const WriteRequest& request, base::TimeNs now_ns) noexcept {
  SIMM_CHECK(request.length > 0 && request.length <= ipc::kValueBytesMax);
  WriteResult result;
  if (request.mode == ipc::PutMode::if_absent) {
    const std::uint32_t present = book_.find(request.key, now_ns);
    if (present != kNone) {
      ++book_.counts.already_present;
      book_.groups.touch(book_.records[present].group, now_ns);
      result.start = WriteStart::already_present;
      result.present_length = book_.records[present].length;
      return result;
    }
  }
  const std::uint32_t account = book_.groups.accounts().account_of(request.key.tenant);
  if (account == kNone) {
    ++book_.counts.refused_tenants;
    result.start = WriteStart::too_many_tenants;
    return result;
  }
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(request.length);
  const bool has_key_room = request.key.bytes.size() <= kInlineKeyBytes || book_.long_keys.grow();
  if (extent_bytes > book_.extents.arena_bytes() || !has_key_room ||
      extent_bytes > book_.groups.accounts()[account].quota_bytes) {
    ++book_.counts.refused_no_space;
    result.start = WriteStart::no_space;
    return result;
  }
  const RoomMaker::Room room = room_.make_room(request, account, now_ns);
  result.evicted_bytes = room.evicted_bytes;
  if (room.block != kNone) {
    result.start = WriteStart::reserved;
    result.reservation = reserve(request, account, room.block);
  } else if (room.refused) {
    ++book_.counts.refused_no_space;
    result.start = WriteStart::no_space;
  } else {
    ++book_.counts.space_waits;
  }
  return result;
}

Reservation Store::reserve(const WriteRequest& request, std::uint32_t account,
                           std::uint32_t block) noexcept {
  const std::uint32_t number = book_.records.allocate();
  SIMM_CHECK(number != kNone);  // make_room saw to it
  book_.meta.note_highest(number);
  Record& record = book_.records[number];
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
  book_.extents.set_owner(block, number);
  record.place = place_at(record, book_.extents.block(block).offset);
  record.account = account;
  keep_key(record, request.key.bytes);
  room_.note_place(number);
  const std::uint64_t extent_bytes = book_.extents.block(block).bytes;
  book_.groups.accounts().charge(account, extent_bytes);
  book_.fixed_bytes += extent_bytes;
  ++book_.counts.reserved;
  return {number, book_.arena.subspan(extent_offset(record), record.length)};
}

ObjectLength Store::publish(const Reservation& reservation, std::uint64_t digest, base::Epoch epoch,
                            base::TimeNs now_ns) noexcept {
  const std::uint32_t number = reservation.record;
  Record& record = book_.records[number];
  SIMM_CHECK(record.state == RecordState::reserved);
  const ObjectKey key{record.hash, record.group_hash, record.tenant, record.name_space,
                      book_.key_of(record)};
  const std::uint32_t present = book_.find(key, now_ns);
  if (present != kNone && record.if_absent) {
    ++book_.counts.already_present;
    --book_.counts.reserved;
    book_.free_record(number);
    return book_.records[present].length;
  }
  record.state = RecordState::live;
  book_.fixed_bytes -= book_.extents.block(record.block).bytes;
  record.generation = ++book_.generation;
  record.epoch = epoch;
  record.payload_digest = digest;
  if (record.expires_ns != 0) record.expires_ns += now_ns;
  record.place = place_at(record, extent_offset(record));
  // The object is there from here on, for the next life of the process as well. A replaced one
  // still is too, until it is detached: the higher generation counts.
  seal(record);
  const std::uint32_t group = book_.groups.find_or_make(record, now_ns);
  const std::uint64_t group_bytes = book_.groups.group(group).extent_bytes;
  book_.groups.add_member(book_.records, group, number, book_.extents.block(record.block).bytes);
  book_.groups.touch(group, now_ns);
  if (record.expires_ns != 0) book_.ttl_wheel.schedule(book_.records, number, record.expires_ns);
  if (present != kNone) {
    book_.index.replace(record.hash.low, present, number);
    book_.detach(present);
    ++book_.counts.replacements;
  } else {
    book_.index.insert(record.hash.low, number);
  }
  const Group& joined = book_.groups.group(group);
  if (joined.pinned && joined.extent_bytes > group_bytes &&
      !book_.groups.may_pin(book_.groups.accounts()[joined.account], 0)) {
    book_.groups.unpin(group, now_ns);
    ++book_.counts.pins_outgrown;
  }
  book_.tell(record, base::KeyEventKind::stored);
  --book_.counts.reserved;
  ++book_.counts.published;
  book_.count_in(record);
  return record.length;
}

void Store::abandon(const Reservation& reservation) noexcept {
  SIMM_CHECK(book_.records[reservation.record].state == RecordState::reserved);
  --book_.counts.reserved;
  ++book_.counts.abandoned;
  book_.free_record(reservation.record);
}

int Store::do_work(base::TimeNs now_ns) noexcept {
  constexpr int kLeasesPerTurn = 64;
  constexpr int kExpiriesPerTurn = 16;
  int work = book_.groups.end_leases(now_ns, kLeasesPerTurn);
  work +=
      book_.ttl_wheel.advance(book_.records, now_ns, kExpiriesPerTurn, [&](std::uint32_t number) {
        if (book_.records[number].expires_ns > now_ns) {
          book_.ttl_wheel.schedule(book_.records, number, book_.records[number].expires_ns);
          return;
        }
        ++book_.counts.expired;
        book_.drop(number, base::KeyEventKind::expired);
      });
  if (book_.ownership != nullptr) work += book_.sweep_slots(now_ns);
  return work + room_.do_work(now_ns) + walker_.do_work(now_ns);
}

// Scrubbing.

ScrubLook Store::look_at(std::uint32_t number, base::TimeNs now_ns, ScrubObject& object) noexcept {
  if (number == kNone || number > book_.records.highest()) return ScrubLook::nothing;
  const Record& record = book_.records[number];
  if (record.state != RecordState::live) return ScrubLook::nothing;
  object.record = number;
  object.generation = record.generation;
  object.digest = record.payload_digest;
  object.length = record.length;
  object.offset = extent_offset(record);
  object.hash = record.hash;
  object.tenant = record.tenant;
  // A damaged key is one that nobody can ask for: a get would never notice.
  if (is_sealed(record) && record.key_check == key_check_of(book_.key_of(record))) {
    return ScrubLook::object;
  }
  if (!drop_damaged(number, now_ns)) return ScrubLook::nothing;
  ++book_.counts.damaged_records;
  return ScrubLook::damaged;
}

// False: a damaged hash does not lead to the index entry, which has to go with the object. Such an
// object is out of sight already, because whoever asks for its key compares the whole hash.
bool Store::drop_damaged(std::uint32_t number, base::TimeNs now_ns) noexcept {
  const Record& record = book_.records[number];
  const std::uint32_t entry = book_.index.find(
      record.hash.low, [number](std::uint32_t candidate) { return candidate == number; });
  if (entry == kNone) return false;
  ++book_.counts.quarantined;
  book_.count_lease_loss(record, LeaseLoss::corrupt, now_ns);
  book_.drop(number, base::KeyEventKind::damaged);
  return true;
}

bool Store::is_there(const ScrubObject& object) const noexcept {
  const Record& record = book_.records[object.record];
  return record.state == RecordState::live && record.generation == object.generation &&
         record.length == object.length;
}

std::span<const std::byte> Store::bytes_of(const ScrubObject& object) const noexcept {
  if (!is_there(object)) return {};
  const Block block = book_.extents.block(book_.records[object.record].block);
  // SAFETY: the block is of the allocator, and at least as long as the object was when its record
  // was sound. A record that was damaged since can only name less.
  if (object.length > block.bytes) return {};
  return book_.arena.subspan(block.offset, object.length);
}

bool Store::end_scrub(const ScrubObject& object, bool sound, base::TimeNs now_ns) noexcept {
  if (!is_there(object)) return true;
  Record& record = book_.records[object.record];
  if (!sound) return !drop_damaged(object.record, now_ns);
  if (record.unverified) --book_.counts.unverified;
  record.unverified = false;
  return true;
}

const StoreStats& Store::stats() noexcept {
  StoreStats& s = book_.counts;
  s.groups = book_.groups.groups().used();
  s.arena_bytes = book_.extents.arena_bytes();
  s.extent_bytes = book_.extents.extent_bytes();
  s.free_bytes = book_.extents.free_bytes();
  s.leased_bytes = book_.groups.leased_bytes();
  s.pinned_bytes = book_.groups.pinned_bytes();
  s.pinned_groups = book_.groups.pinned_groups();
  s.holes = book_.extents.holes();
  s.largest_hole_bytes = book_.extents.largest_hole_bytes();
  s.movable_bytes = book_.extents.extent_bytes() - room_.held_bytes() - book_.fixed_bytes;
  s.spectrum.reused_by_age = book_.groups.reused_by_age();
  return s;
}

}  // namespace simm::store
