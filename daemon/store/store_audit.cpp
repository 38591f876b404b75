// Recounting everything the store believes. For tests: it walks all tables.
#include <vector>

#include "daemon/store/store.h"

namespace simm::store {

const char* GroupBook::audit(const Table<Record>& records) const noexcept {
  if (const char* wrong = index_.audit()) return wrong;
  if (index_.entries() != groups_.used()) return "groups and their index differ";
  std::uint32_t groups = 0;
  std::uint64_t pinned = 0;
  std::vector<std::uint64_t> pinned_bytes(accounts_.end());
  for (std::uint32_t n = 1; n <= groups_.highest(); ++n) {
    const Group& g = groups_[n];
    if (g.members.empty()) continue;  // not in use, or the count below is wrong
    if (int{g.leased} + int{g.queued} + int{g.pinned} != 1) {
      return "a group is neither leased nor evictable nor pinned, or several of these";
    }
    pinned += g.pinned ? 1 : 0;
    pinned_bytes[g.account] += g.pinned ? g.extent_bytes : 0;
    if (wheel_.scheduled(g) != g.leased) return "a lease is not on the wheel, or no lease is";
    for (std::uint32_t m = g.members.front(); m != kNone; m = g.members.next(records, m)) {
      if (records[m].group != n) return "a member names another group";
    }
    ++groups;
  }
  if (groups != groups_.used()) return "groups are lost, or without members";
  std::uint64_t all_leased_bytes = 0;
  std::uint64_t all_pinned_bytes = 0;
  std::uint32_t leased = 0;
  for (std::uint32_t a = 1; a < accounts_.end(); ++a) {
    const Account& account = accounts_[a];
    std::uint64_t leased_bytes = 0;
    for (const bool probed : {false, true}) {
      const auto& list = probed ? account.probed : account.leased;
      for (std::uint32_t n = list.front(); n != kNone; n = list.next(groups_, n)) {
        const Group& g = groups_[n];
        if (!g.leased || g.probed != probed) return "a group is on the wrong list";
        if (g.account != a) return "a group is in the wrong account";
        leased_bytes += g.extent_bytes;
        ++leased;
      }
    }
    if (leased_bytes != account.leased_bytes) return "an account's leased bytes do not add up";
    if (pinned_bytes[a] != account.pinned_bytes) {
      return "an account's pinned bytes do not add up";
    }
    all_leased_bytes += leased_bytes;
    all_pinned_bytes += pinned_bytes[a];
  }
  std::uint32_t queued = 0;
  if (const char* wrong = policy_->audit(queued)) return wrong;
  if (leased + queued + pinned != groups) return "groups are neither leased nor queued nor pinned";
  if (pinned != pinned_groups_ || all_pinned_bytes != pinned_bytes_) return "pins do not add up";
  return all_leased_bytes == leased_bytes_ ? nullptr : "leased bytes do not add up";
}

const char* Store::audit_tallies() const noexcept {
  std::uint64_t fixed_bytes = 0;
  std::vector<TenantTally> found(groups_.accounts().end());
  for (std::uint32_t n = 1; n <= records_.highest(); ++n) {
    const Record& record = records_[n];
    if (record.state == RecordState::unused) continue;
    if (record.state != RecordState::live || record.pins > 0) {
      fixed_bytes += extents_.block(record.block).bytes;
    }
    if (record.state != RecordState::live) continue;
    ++found[record.account].objects;
    found[record.account].payload_bytes += record.length;
  }
  for (std::uint32_t n = 0; n < found.size(); ++n) {
    const TenantTally& tally = groups_.accounts().tally(n);
    if (tally.objects != found[n].objects || tally.payload_bytes != found[n].payload_bytes) {
      return "objects of a tenant do not add up";
    }
  }
  return fixed_bytes == fixed_bytes_ ? nullptr : "bytes that may not move do not add up";
}

const char* Store::audit_accounts(std::uint64_t extent_bytes) const noexcept {
  const AccountBook& accounts = groups_.accounts();
  std::uint64_t account_bytes = 0;
  std::uint32_t account_records = 0;
  std::uint64_t weights = 0;
  std::uint32_t crowded = 0;
  for (std::uint32_t n = 1; n < accounts.end(); ++n) {
    const Account& account = accounts[n];
    if (account.extent_bytes > account.quota_bytes && account.records > 0)
      return "a quota is exceeded";
    const std::uint64_t room = account.quota_bytes - account.extent_bytes;
    if (account.crowded ? room >= account.stock.high : room < account.stock.low) {
      return "a tenant is taken for near its quota, or is not";
    }
    crowded += account.crowded ? 1 : 0;
    account_bytes += account.extent_bytes;
    account_records += account.records;
    weights += account.records > 0 ? account.weight : 0;
  }
  if (account_bytes != extent_bytes) return "accounts do not add up";
  const Holding bytes = accounts.mean(Scarce::bytes);
  const Holding records = accounts.mean(Scarce::records);
  if (bytes.amount != account_bytes || records.amount != account_records ||
      bytes.weight != weights) {
    return "what all accounts hold does not add up";
  }
  if (crowded != accounts.crowded()) return "tenants near their quota do not add up";
  return account_records == records_.used() ? nullptr : "records do not add up";
}

const char* Store::audit() const noexcept {
  if (const char* wrong = extents_.audit()) return wrong;
  if (const char* wrong = index_.audit()) return wrong;
  if (const char* wrong = groups_.audit(records_)) return wrong;
  if (const char* wrong = audit_tallies()) return wrong;
  StoreStats found;
  std::uint64_t extent_bytes = 0;
  for (std::uint32_t n = 1; n <= records_.highest(); ++n) {
    const Record& record = records_[n];
    if (record.state == RecordState::unused) continue;
    const Block block = extents_.block(record.block);
    if (!block.in_use || block.offset != extent_offset(record)) return "a record's extent is wrong";
    if (block.bytes != ExtentAllocator::rounded(record.length))
      return "an extent's length is wrong";
    extent_bytes += block.bytes;
    found.reserved += record.state == RecordState::reserved ? 1 : 0;
    found.lingering += record.state == RecordState::dead ? 1 : 0;
    if (record.state == RecordState::dead && record.pins == 0) return "a dead record was not freed";
    if ((record.group != kNone) != (record.state == RecordState::live))
      return "a group link is wrong";
    if (record.state != RecordState::live) {
      if (record.seal != 0) return "a record is sealed that nobody may find";
      continue;
    }
    ++found.objects;
    found.payload_bytes += record.length;
    found.spectrum.add(record.length);
    found.unverified += record.unverified ? 1 : 0;
    if (!is_sealed(record)) return "a live record is not sealed";
    const std::uint32_t indexed =
        index_.find(record.hash.low, [n](std::uint32_t candidate) { return candidate == n; });
    if (indexed != n) return "a live record is not in the index";
    if ((record.expires_ns != 0) != ttl_wheel_.scheduled(record))
      return "a TTL is not on the wheel";
  }
  if (found.objects != counts_.objects || found.objects != index_.entries())
    return "objects differ";
  if (found.payload_bytes != counts_.payload_bytes) return "payload bytes do not add up";
  if (found.spectrum.objects != counts_.spectrum.objects ||
      found.spectrum.bytes != counts_.spectrum.bytes) {
    return "objects by length do not add up";
  }
  if (found.unverified != counts_.unverified) return "unverified objects do not add up";
  if (found.reserved != counts_.reserved) return "reservations do not add up";
  if (found.lingering != counts_.lingering) return "lingering records do not add up";
  if (extent_bytes + held_bytes() != extents_.extent_bytes()) return "extent bytes do not add up";
  return audit_accounts(extent_bytes);
}

}  // namespace simm::store
