// Coming back: the objects that a kept metadata table proves, and everything that is derived from
// them: index, accounts, extents, groups, expiry.
//
// Order. What is given up keeps its seal until all is decided, and loses it before its number or
// its extent can be used: whoever dies in here leaves a table that the next one reads likewise.
#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/pool/crew_sort.h"
#include "daemon/store/pool/recovery_scan.h"
#include "daemon/store/store.h"

namespace simm::store {
namespace {

// After each step of a long loop, told to the crew now and then. False: it was stopped.
bool goes_on(RecoveryCrew& crew, std::size_t step) noexcept {
  constexpr std::size_t kSteps = 1024;
  if (step % kSteps == 0) crew.advance(kSteps);
  return !crew.stopping();
}

}  // namespace

Outcome Store::recover(const ShardMemory& memory, RecoveryCrew& crew) {
  if (memory.contents != Contents::kept || memory.table.empty()) return Done{};
  const auto highest = meta_.kept_records();
  if (!highest) {
    ++counts_.refused_tables;
    meta_.clear(memory.boot);
    return Done{};
  }
  try {
    return take_over(*highest, memory, crew);
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory to read back a metadata table of " +
                                            std::to_string(*highest) + " records"};
  }
}

Outcome Store::take_over(std::uint32_t highest, const ShardMemory& memory, RecoveryCrew& crew) {
  const Error stopped{Status::cancelled, "the recovery was stopped"};
  // The scan, the way into the index, and that into the groups: a step for each record.
  crew.expect(3 * std::uint64_t{highest});
  RecoveryScan::Limits limits;
  limits.arena_bytes = extents_.arena_bytes();
  limits.highest = highest;
  limits.same_boot = meta_.boot() == memory.boot;
  limits.now_ns = memory.now_ns;
  const RecoveryScan scan(records_, long_keys_, limits, crew);
  if (crew.stopping()) return stopped;
  counts_.lost_at_recovery = scan.lost();
  generation_ = scan.generation_max();
  records_.adopt(highest);
  for (std::uint32_t n = 1; n <= highest; ++n) records_[n].state = RecordState::unused;

  // The newest first: they get what room there is, and of one key the newest is the object.
  std::vector<RecoveryScan::Found> by_age = scan.found();
  crew_sort(
      by_age, [](const auto& a, const auto& b) { return a.generation > b.generation; }, crew);
  if (!readmit_all(by_age, crew)) return stopped;
  std::uint32_t hole = extents_.first();
  for (const RecoveryScan::Found& found : scan.found()) {
    Record& record = records_[found.number];
    if (record.state != RecordState::live) continue;
    record.block = extents_.claim(hole, found.offset, record.length);
    extents_.set_owner(record.block, found.number);
    hole = extents_.after(record.block);
  }
  // The oldest first, as they once came: that is the order in which they leave.
  for (std::size_t i = by_age.size(); i > 0; --i) {
    const std::uint32_t number = by_age[i - 1].number;
    if (records_[number].state == RecordState::live) regroup(number, memory.now_ns);
    if (!goes_on(crew, i - 1)) return stopped;
  }
  release_unproved(highest);
  meta_.note_highest(highest);
  meta_.set_boot(memory.boot);
  return Done{};
}

bool Store::readmit_all(const std::vector<RecoveryScan::Found>& by_age, RecoveryCrew& crew) {
  for (std::size_t i = 0; i < by_age.size(); ++i) {
    // The index is read all over: ask for a line some entries ahead.
    constexpr std::size_t kAhead = 8;
    if (i + kAhead < by_age.size()) index_.prefetch(records_[by_age[i + kAhead].number].hash.low);
    readmit(by_age[i].number);
    if (!goes_on(crew, i)) return false;
  }
  return true;
}

void Store::readmit(std::uint32_t number) noexcept {
  Record& record = records_[number];
  const auto lose = [this](RecoveryLoss loss) {
    ++counts_.lost_at_recovery[static_cast<std::size_t>(loss)];
  };
  const ObjectKey key{record.hash, record.group_hash, record.tenant, record.name_space,
                      key_of(record)};
  const std::uint32_t newer = index_.find(
      key.hash.low, [&](std::uint32_t candidate) { return is(records_[candidate], key); });
  if (newer != kNone) return lose(RecoveryLoss::superseded);
  const std::uint32_t account = groups_.accounts().account_of(record.tenant);
  if (account == kNone) return lose(RecoveryLoss::refused);
  const Account& holder = groups_.accounts()[account];
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(record.length);
  if (extent_bytes > holder.quota_bytes - holder.extent_bytes) return lose(RecoveryLoss::refused);
  groups_.accounts().charge(account, extent_bytes);
  index_.insert(record.hash.low, number);
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
  ++counts_.recovered;
  ++counts_.unverified;
  count_in(record);
}

void Store::regroup(std::uint32_t number, base::TimeNs now_ns) noexcept {
  Record& record = records_[number];
  const std::uint32_t group = groups_.find_or_make(record, now_ns);
  groups_.add_member(records_, group, number, extents_.block(record.block).bytes);
  if (record.expires_ns != 0) ttl_wheel_.schedule(records_, number, record.expires_ns);
}

void Store::release_unproved(std::uint32_t highest) {
  std::uint32_t long_keys = 0;
  for (std::uint32_t n = 1; n <= highest; ++n) {
    if (records_[n].state == RecordState::live)
      long_keys = std::max(long_keys, records_[n].long_key);
  }
  std::vector<bool> held(long_keys + std::size_t{1}, false);
  for (std::uint32_t n = highest; n > 0; --n) {
    if (records_[n].state == RecordState::live) {
      held[records_[n].long_key] = true;
    } else {
      unseal(records_[n]);
      records_.release(n);
    }
  }
  long_keys_.adopt(long_keys);
  for (std::uint32_t n = long_keys; n > 0; --n) {
    if (!held[n]) long_keys_.release(n);
  }
}

}  // namespace simm::store
