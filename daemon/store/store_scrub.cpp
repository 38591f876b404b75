// What a scrubber sees of a store: objects by the number of their record.
#include "daemon/store/pool/record_seal.h"
#include "daemon/store/store.h"

namespace simm::store {

ScrubLook Store::look_at(std::uint32_t number, base::TimeNs now_ns, ScrubObject& object) noexcept {
  if (number == kNone || number > records_.highest()) return ScrubLook::nothing;
  const Record& record = records_[number];
  if (record.state != RecordState::live) return ScrubLook::nothing;
  object.record = number;
  object.generation = record.generation;
  object.digest = record.payload_digest;
  object.length = record.length;
  object.offset = extent_offset(record);
  object.hash = record.hash;
  object.tenant = record.tenant;
  // A damaged key is one that nobody can ask for: a get would never notice.
  if (is_sealed(record) && record.key_check == key_check_of(key_of(record))) {
    return ScrubLook::object;
  }
  if (!drop_damaged(number, now_ns)) return ScrubLook::nothing;
  ++counts_.damaged_records;
  return ScrubLook::damaged;
}

// False: a damaged hash does not lead to the index entry, which has to go with the object. Such an
// object is out of sight already, because whoever asks for its key compares the whole hash.
bool Store::drop_damaged(std::uint32_t number, base::TimeNs now_ns) noexcept {
  const Record& record = records_[number];
  const std::uint32_t entry = index_.find(
      record.hash.low, [number](std::uint32_t candidate) { return candidate == number; });
  if (entry == kNone) return false;
  ++counts_.quarantined;
  count_lease_loss(record, LeaseLoss::corrupt, now_ns);
  drop(number);
  return true;
}

bool Store::is_there(const ScrubObject& object) const noexcept {
  const Record& record = records_[object.record];
  return record.state == RecordState::live && record.generation == object.generation &&
         record.length == object.length;
}

std::span<const std::byte> Store::bytes_of(const ScrubObject& object) const noexcept {
  if (!is_there(object)) return {};
  const Block block = extents_.block(records_[object.record].block);
  // SAFETY: the block is of the allocator, and at least as long as the object was when its record
  // was sound; a record that was damaged since can only name less.
  if (object.length > block.bytes) return {};
  return arena_.subspan(block.offset, object.length);
}

bool Store::end_scrub(const ScrubObject& object, bool sound, base::TimeNs now_ns) noexcept {
  if (!is_there(object)) return true;
  Record& record = records_[object.record];
  if (!sound) return !drop_damaged(object.record, now_ns);
  if (record.unverified) --counts_.unverified;
  record.unverified = false;
  return true;
}

}  // namespace simm::store
