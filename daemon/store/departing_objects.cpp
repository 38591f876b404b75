#include "daemon/store/departing_objects.h"

#include "daemon/store/pool/record_seal.h"
#include "simm/check.h"

namespace simm::store {

bool DepartingObjects::look_at(std::uint32_t number, const base::SlotDepartures& departures,
                               base::TimeNs needed_until_ns,
                               DepartingObject& object) const noexcept {
  if (number == kNone || number > book_.records.highest()) return false;
  const Record& record = book_.records[number];
  if (record.state != RecordState::live) return false;
  if (record.expires_ns != 0 && record.expires_ns <= needed_until_ns) return false;
  const base::Slot slot = base::slot_of(record.group_hash);
  if (!departures.covers(slot, record.epoch)) return false;
  object.key = book_.key_of(record);
  // A damaged key would be another object's.
  if (!is_sealed(record) || record.key_check != key_check_of(object.key)) return false;
  object.hash = record.hash;
  object.group = record.group_hash;
  object.generation = record.generation;
  object.tenant = record.tenant;
  object.name_space = record.name_space;
  object.slot = slot;
  object.length = record.length;
  object.digest = record.payload_digest;
  object.expires_ns = record.expires_ns;
  object.depth_step = record.depth_step;
  // Its put was the first use.
  object.was_used = book_.groups.groups()[record.group].uses > 1;
  return true;
}

ReadPin DepartingObjects::pin(std::uint32_t number) noexcept {
  Record& record = book_.records[number];
  SIMM_CHECK(record.state == RecordState::live);
  book_.add_pin(record);
  ReadPin pin;
  pin.record = number;
  // SAFETY: look_at() has seen that the seal covers offset and length.
  pin.bytes = book_.arena.subspan(extent_offset(record), record.length);
  pin.digest = record.payload_digest;
  pin.generation = record.generation;
  pin.unverified = record.unverified;
  return pin;
}

void DepartingObjects::drop(const ReadPin& pin, const base::SlotDepartures& departures) noexcept {
  const Record& record = book_.records[pin.record];
  SIMM_CHECK(record.pins > 0 && record.generation == pin.generation);
  // The slot may have come back meanwhile, and the sweep not yet.
  const bool departs = departures.covers(base::slot_of(record.group_hash), record.epoch);
  if (record.state != RecordState::live || !departs) return;
  ++book_.counts.disowned;
  book_.drop(pin.record, base::KeyEventKind::moved);
}

}  // namespace simm::store
