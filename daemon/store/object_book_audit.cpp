// Recounts everything that an ObjectBook believes. For tests: it walks all tables.
#include <vector>

#include "daemon/store/object_book.h"
#include "daemon/store/pool/record_seal.h"

namespace simm::store {

const char* ObjectBook::audit_tallies() const noexcept {
  std::uint64_t fixed = 0;
  std::vector<TenantTally> found(groups.accounts().end());
  for (std::uint32_t n = 1; n <= records.highest(); ++n) {
    const Record& record = records[n];
    if (record.state == RecordState::unused) continue;
    if (record.state != RecordState::live || record.pins > 0) {
      fixed += extents.block(record.block).bytes;
    }
    if (record.state != RecordState::live) continue;
    ++found[record.account].objects;
    found[record.account].payload_bytes += record.length;
  }
  for (std::uint32_t n = 0; n < found.size(); ++n) {
    const TenantTally& tally = groups.accounts().tally(n);
    if (tally.objects != found[n].objects || tally.payload_bytes != found[n].payload_bytes) {
      return "objects of a tenant do not add up";
    }
  }
  return fixed == fixed_bytes ? nullptr : "bytes that may not move do not add up";
}

const char* ObjectBook::audit_accounts(std::uint64_t extent_bytes) const noexcept {
  const AccountBook& accounts = groups.accounts();
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
  const Holding by_bytes = accounts.mean(Scarce::bytes);
  const Holding by_records = accounts.mean(Scarce::records);
  if (by_bytes.amount != account_bytes || by_records.amount != account_records ||
      by_bytes.weight != weights) {
    return "what all accounts hold does not add up";
  }
  if (crowded != accounts.crowded()) return "tenants near their quota do not add up";
  return account_records == records.used() ? nullptr : "records do not add up";
}

const char* ObjectBook::audit(std::uint64_t held_bytes) const noexcept {
  if (const char* wrong = extents.audit()) return wrong;
  if (const char* wrong = index.audit()) return wrong;
  if (const char* wrong = groups.audit(records)) return wrong;
  if (const char* wrong = audit_tallies()) return wrong;
  StoreStats found;
  std::uint64_t extent_bytes = 0;
  for (std::uint32_t n = 1; n <= records.highest(); ++n) {
    const Record& record = records[n];
    if (record.state == RecordState::unused) continue;
    const Block block = extents.block(record.block);
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
        index.find(record.hash.low, [n](std::uint32_t candidate) { return candidate == n; });
    if (indexed != n) return "a live record is not in the index";
    if ((record.expires_ns != 0) != ttl_wheel.scheduled(record)) return "a TTL is not on the wheel";
  }
  if (found.objects != counts.objects || found.objects != index.entries()) return "objects differ";
  if (found.payload_bytes != counts.payload_bytes) return "payload bytes do not add up";
  if (found.spectrum.objects != counts.spectrum.objects ||
      found.spectrum.bytes != counts.spectrum.bytes) {
    return "objects by length do not add up";
  }
  if (found.unverified != counts.unverified) return "unverified objects do not add up";
  if (found.reserved != counts.reserved) return "reservations do not add up";
  if (found.lingering != counts.lingering) return "lingering records do not add up";
  if (extent_bytes + held_bytes != extents.extent_bytes()) return "extent bytes do not add up";
  return audit_accounts(extent_bytes);
}

}  // namespace simm::store
