#include "daemon/store/key_walker.h"

#include "daemon/store/pool/record_seal.h"

namespace simm::store {
namespace {

bool is_asked_for(const base::KeyWalk& walk, const Record& record, base::TimeNs now_ns) noexcept {
  // A damaged record says nothing that is true, and one that has expired is told of soon.
  return record.state == RecordState::live && (!walk.has_tenant || record.tenant == walk.tenant) &&
         (!walk.has_name_space || record.name_space == walk.name_space) &&
         (record.expires_ns == 0 || now_ns < record.expires_ns) && is_sealed(record);
}

}  // namespace

int KeyWalker::go_on(const base::KeyWalk& walk, base::TimeNs now_ns) noexcept {
  constexpr int kRecordsPerTurn = 64;
  if (at_ == 0) {
    at_ = walk.next == 0 ? 1 : walk.next;
    looked_ = told_ = 0;
  }
  const std::uint32_t highest = book_.records.highest();
  int looked = 0;
  for (; looked < kRecordsPerTurn && at_ <= highest; ++looked, ++at_) {
    if (looked_ == kWalkRecordsMax || told_ == kWalkKeysMax) break;
    const Record& record = book_.records[at_];
    if (is_asked_for(walk, record, now_ns)) {
      base::KeyEvent event = book_.event_of(record, base::KeyEventKind::present);
      event.walk = walk.number;
      // Full: the events are more urgent, and the walk goes on in a later turn.
      if (!book_.key_events.tell_if_room(event) && book_.key_events.on()) return looked;
      ++told_;
    }
    ++looked_;
  }
  const bool is_at_end = at_ > highest;
  const bool is_over = is_at_end || looked_ == kWalkRecordsMax || told_ == kWalkKeysMax;
  if (is_over && book_.key_events.end_walk(is_at_end ? 0 : at_)) at_ = 0;
  return looked + 1;
}

}  // namespace simm::store
