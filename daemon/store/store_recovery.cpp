#include "daemon/store/store_recovery.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include "daemon/store/pool/index_fill.h"
#include "daemon/store/pool/record_seal.h"

namespace simm::store {

namespace {

// So many steps before a record is changed, its lines are asked for. Half of it later there is
// time to ask for what they name.
constexpr std::size_t kAhead = 32;

[[gnu::always_inline]] inline void ask_for(const Record& record, std::size_t line) noexcept {
  __builtin_prefetch(reinterpret_cast<const char*>(&record) + line * 64, 1);
}

}  // namespace

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
  RecoveryScan scan(book_.records, book_.long_keys, limits, crew_);
  if (crew_.stopping()) return stopped;
  book_.generation = scan.generation_max();
  book_.records.adopt(highest);
  fill_index(scan);
  if (crew_.stopping()) return stopped;
  drop_refused(scan);
  // Each changes fields of a record that the other one does not touch.
  crew_.run(2, [&](std::size_t part) {
    if (part == 0) {
      admit_all(scan);
    } else {
      claim_extents(scan);
    }
  });
  if (crew_.stopping()) return stopped;
  book_.counts.lost_at_recovery = scan.lost();
  release_unproved(scan, highest);
  book_.meta.note_highest(highest);
  book_.meta.set_boot(memory_.boot);
  return Done{};
}

void StoreRecovery::fill_index(RecoveryScan& scan) {
  const IndexFill::Compare same = [this](std::uint32_t a, std::uint32_t b) {
    const Record& one = book_.records[a];
    const ObjectKey key{one.hash, one.group_hash, one.tenant, one.name_space, book_.key_of(one)};
    return book_.is(book_.records[b], key);
  };
  const IndexFill::Compare newer = [this](std::uint32_t a, std::uint32_t b) {
    return book_.records[a].generation > book_.records[b].generation;
  };
  const IndexFill::Drop drop = [&scan](std::uint32_t number) { scan.drop(number); };
  IndexFill fill(book_.index, same, newer, drop);
  const std::uint64_t superseded = fill.run(scan.take_tags(), crew_);
  if (superseded == 0) return;
  scan.count(RecoveryLoss::superseded, superseded);
  scan.shed();
}

bool StoreRecovery::all_have_room(const RecoveryScan& scan) const {
  if (!scan.lists_all_tenants()) return false;
  AccountBook accounts = book_.groups.accounts();
  return std::all_of(scan.held().begin(), scan.held().end(), [&](const RecoveryScan::Held& held) {
    const std::uint32_t account = accounts.account_of(held.tenant);
    if (account == kNone || held.extent_bytes > accounts[account].quota_bytes) return false;
    accounts.charge(account, held.extent_bytes);
    return true;
  });
}

// Tried with a copy of the accounts: those of the book are charged when all is decided.
void StoreRecovery::drop_refused(RecoveryScan& scan) {
  if (all_have_room(scan)) return;
  AccountBook accounts = book_.groups.accounts();
  for (std::size_t i = scan.by_age().size(); i > 0; --i) {
    const RecoveryScan::Found& found = scan.by_age()[i - 1];
    const Record& record = book_.records[found.number];
    const std::uint32_t account = accounts.account_of(record.tenant);
    if (account != kNone &&
        found.extent_bytes() <= accounts[account].quota_bytes - accounts[account].extent_bytes) {
      accounts.charge(account, found.extent_bytes());
      continue;
    }
    book_.index.remove(record.hash.low, found.number);
    scan.drop(found.number);
    scan.count(RecoveryLoss::refused);
  }
  scan.shed();
}

void StoreRecovery::claim_extents(const RecoveryScan& scan) noexcept {
  const auto& all = scan.by_address();
  std::uint32_t hole = book_.extents.first();
  for (std::size_t i = 0; i < all.size() && !crew_.stopping(); ++i) {
    if (i + kAhead < all.size()) ask_for(book_.records[all[i + kAhead].number], 3);
    const RecoveryScan::Found& found = all[i];
    const std::uint32_t block = book_.extents.claim(hole, found.order, found.extent_bytes());
    book_.extents.set_owner(block, found.number);
    book_.records[found.number].block = block;
    hole = book_.extents.after(block);
  }
}

void StoreRecovery::admit_all(const RecoveryScan& scan) noexcept {
  const auto& all = scan.by_age();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i + kAhead < all.size()) {
      const Record& far = book_.records[all[i + kAhead].number];
      ask_for(far, 0);
      ask_for(far, 2);
      ask_for(far, 3);
      book_.groups.prefetch_index(book_.records[all[i + kAhead / 2].number].group_hash);
    }
    admit(all[i]);
    if (!goes_on(i)) return;
  }
}

void StoreRecovery::admit(const RecoveryScan::Found& found) noexcept {
  Record& record = book_.records[found.number];
  AccountBook& accounts = book_.groups.accounts();
  // This life's fields: what is there is of another one. The extent number is for claim_extents().
  record.group = kNone;
  record.state = RecordState::live;
  record.if_absent = false;
  record.ttl = {};
  record.account = accounts.account_of(record.tenant);
  record.member = {};
  record.pins = 0;
  record.unverified = true;
  record.depth_step = 0;
  accounts.charge(record.account, found.extent_bytes());
  ++book_.counts.recovered;
  ++book_.counts.unverified;
  book_.count_in(record);
  const std::uint32_t group = book_.groups.find_or_make(record, memory_.now_ns);
  book_.groups.add_member(book_.records, group, found.number, found.extent_bytes());
  if (record.expires_ns != 0) {
    book_.ttl_wheel.schedule(book_.records, found.number, record.expires_ns);
  }
}

void StoreRecovery::release_unproved(const RecoveryScan& scan, std::uint32_t highest) {
  std::uint32_t long_keys = 0;
  for (const auto& [long_key, number] : scan.long_claims()) {
    if (scan.keeps(number)) long_keys = std::max(long_keys, long_key);
  }
  std::vector<bool> held(long_keys + std::size_t{1}, false);
  for (const auto& [long_key, number] : scan.long_claims()) {
    if (scan.keeps(number)) held[long_key] = true;
  }
  for (std::uint32_t n = highest; n > 0; --n) {
    if (scan.keeps(n)) continue;
    unseal(book_.records[n]);
    book_.records.release(n);
  }
  book_.long_keys.adopt(long_keys);
  for (std::uint32_t n = long_keys; n > 0; --n) {
    if (!held[n]) book_.long_keys.release(n);
  }
}

}  // namespace simm::store
