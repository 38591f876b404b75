#include "daemon/store/store_recovery.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>

#include "daemon/store/pool/crew_sort.h"
#include "daemon/store/pool/record_seal.h"

namespace simm::store {

bool StoreRecovery::goes_on(std::size_t step) noexcept {
  constexpr std::size_t kSteps = 1024;
  if (step % kSteps == 0) crew_.advance(kSteps);
  return !crew_.stopping();
}

Outcome StoreRecovery::run() {
  if (memory_.contents != Contents::kept || memory_.table.empty()) return Done{};
  const auto highest = book_.meta.kept_records();
  if (!highest) {
    ++book_.counts.refused_tables;
    book_.meta.clear(memory_.boot);
    return Done{};
  }
  try {
    return take_over(*highest);
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to read back a metadata table of " +
                                            std::to_string(*highest) + " records"};
  }
}

Outcome StoreRecovery::take_over(std::uint32_t highest) {
  const Error stopped{Status::cancelled, "the recovery was stopped"};
  // The scan, the way into the index, and that into the groups: a step for each record.
  crew_.expect(3 * std::uint64_t{highest});
  RecoveryScan::Limits limits;
  limits.arena_bytes = book_.extents.arena_bytes();
  limits.highest = highest;
  limits.same_boot = book_.meta.boot() == memory_.boot;
  limits.now_ns = memory_.now_ns;
  const RecoveryScan scan(book_.records, book_.long_keys, limits, crew_);
  if (crew_.stopping()) return stopped;
  book_.counts.lost_at_recovery = scan.lost();
  book_.generation = scan.generation_max();
  book_.records.adopt(highest);
  for (std::uint32_t n = 1; n <= highest; ++n) book_.records[n].state = RecordState::unused;

  // The newest first: they get what room there is, and of one key the newest is the object.
  std::vector<RecoveryScan::Found> by_age = scan.found();
  crew_sort(
      by_age, [](const auto& a, const auto& b) { return a.generation > b.generation; }, crew_);
  if (!readmit_all(by_age)) return stopped;
  std::uint32_t hole = book_.extents.first();
  for (const RecoveryScan::Found& found : scan.found()) {
    Record& record = book_.records[found.number];
    if (record.state != RecordState::live) continue;
    record.block = book_.extents.claim(hole, found.offset, record.length);
    book_.extents.set_owner(record.block, found.number);
    hole = book_.extents.after(record.block);
  }
  // The oldest first, as they once came: that is the order in which they leave.
  for (std::size_t i = by_age.size(); i > 0; --i) {
    const std::uint32_t number = by_age[i - 1].number;
    if (book_.records[number].state == RecordState::live) regroup(number);
    if (!goes_on(i - 1)) return stopped;
  }
  release_unproved(highest);
  book_.meta.note_highest(highest);
  book_.meta.set_boot(memory_.boot);
  return Done{};
}

bool StoreRecovery::readmit_all(const std::vector<RecoveryScan::Found>& by_age) {
  for (std::size_t i = 0; i < by_age.size(); ++i) {
    // The index is read all over: ask for a line some entries ahead.
    constexpr std::size_t kAhead = 8;
    if (i + kAhead < by_age.size())
      book_.index.prefetch(book_.records[by_age[i + kAhead].number].hash.low);
    readmit(by_age[i].number);
    if (!goes_on(i)) return false;
  }
  return true;
}

void StoreRecovery::readmit(std::uint32_t number) noexcept {
  Record& record = book_.records[number];
  const auto lose = [this](RecoveryLoss loss) {
    ++book_.counts.lost_at_recovery[static_cast<std::size_t>(loss)];
  };
  const ObjectKey key{record.hash, record.group_hash, record.tenant, record.name_space,
                      book_.key_of(record)};
  const std::uint32_t newer = book_.index.find(key.hash.low, [&](std::uint32_t candidate) {
    return book_.is(book_.records[candidate], key);
  });
  if (newer != kNone) return lose(RecoveryLoss::superseded);
  const std::uint32_t account = book_.groups.accounts().account_of(record.tenant);
  if (account == kNone) return lose(RecoveryLoss::refused);
  const Account& holder = book_.groups.accounts()[account];
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(record.length);
  if (extent_bytes > holder.quota_bytes - holder.extent_bytes) return lose(RecoveryLoss::refused);
  book_.groups.accounts().charge(account, extent_bytes);
  book_.index.insert(record.hash.low, number);
  // This life's fields: what is there is of another one.
  record.group = kNone;
  record.state = RecordState::live;
  record.if_absent = false;
  record.ttl = {};
  record.account = account;
  record.member = {};
  record.pins = 0;
  record.unverified = true;
  record.depth_step = 0;
  ++book_.counts.recovered;
  ++book_.counts.unverified;
  book_.count_in(record);
}

void StoreRecovery::regroup(std::uint32_t number) noexcept {
  Record& record = book_.records[number];
  const std::uint32_t group = book_.groups.find_or_make(record, memory_.now_ns);
  book_.groups.add_member(book_.records, group, number, book_.extents.block(record.block).bytes);
  if (record.expires_ns != 0) book_.ttl_wheel.schedule(book_.records, number, record.expires_ns);
}

void StoreRecovery::release_unproved(std::uint32_t highest) {
  std::uint32_t long_keys = 0;
  for (std::uint32_t n = 1; n <= highest; ++n) {
    if (book_.records[n].state == RecordState::live)
      long_keys = std::max(long_keys, book_.records[n].long_key);
  }
  std::vector<bool> held(long_keys + std::size_t{1}, false);
  for (std::uint32_t n = highest; n > 0; --n) {
    if (book_.records[n].state == RecordState::live) {
      held[book_.records[n].long_key] = true;
    } else {
      unseal(book_.records[n]);
      book_.records.release(n);
    }
  }
  book_.long_keys.adopt(long_keys);
  for (std::uint32_t n = long_keys; n > 0; --n) {
    if (!held[n]) book_.long_keys.release(n);
  }
}

}  // namespace simm::store
