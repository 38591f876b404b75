#include "daemon/store/pool/recovery_scan.h"

#include <algorithm>
#include <utility>

#include "daemon/store/pool/crew_sort.h"
#include "daemon/store/pool/record_seal.h"

namespace simm::store {

namespace {

// No store gets here; and the next life counts on from what it finds.
constexpr std::uint64_t kGenerationMax = std::uint64_t{1} << 62;

}  // namespace

RecoveryScan::RecoveryScan(const Table<Record>& records, const Table<LongKey>& long_keys,
                           const Limits& limits, RecoveryCrew& crew)
    : records_(records), long_keys_(long_keys), limits_(limits) {
  look_at_all(crew);
  if (crew.stopping()) return;
  drop_shared_long_keys();
  drop_overlapping(crew);
}

// Every range has room of its own for as many entries as it has records; then they move together.
void RecoveryScan::look_at_all(RecoveryCrew& crew) {
  constexpr std::uint32_t kRangeRecords = 1u << 16;
  std::vector<Range> ranges;
  for (std::uint32_t at = 0; at < limits_.highest;) {
    const std::uint32_t count = std::min(kRangeRecords, limits_.highest - at);
    Range range;
    range.first = at + 1;
    range.end = at + 1 + count;
    ranges.push_back(range);
    at += count;
  }
  found_.resize(limits_.highest);
  crew.run(ranges.size(), [&](std::size_t part) {
    Range& range = ranges[part];
    for (std::uint32_t n = range.first; n < range.end && !crew.stopping(); ++n) look_at(n, range);
    crew.advance(range.end - range.first);
  });
  std::size_t kept = 0;
  for (const Range& range : ranges) {
    const auto from = found_.begin() + (range.first - 1);
    std::copy_n(from, range.found, found_.begin() + static_cast<std::ptrdiff_t>(kept));
    kept += range.found;
    generation_max_ = std::max(generation_max_, range.generation_max);
    for (std::size_t i = 0; i < lost_.size(); ++i) lost_[i] += range.lost[i];
  }
  found_.resize(kept);
}

bool RecoveryScan::is_possible(const Record& record) const noexcept {
  if (record.key_bytes == 0 || record.key_bytes > ipc::kKeyBytesMax) return false;
  if ((record.key_bytes > kInlineKeyBytes) != (record.long_key != kNone)) return false;
  if (record.long_key > limits_.highest) return false;
  if (record.generation == 0 || record.generation > kGenerationMax) return false;
  if (record.length == 0 || record.length > ipc::kValueBytesMax) return false;
  const std::uint64_t bytes = ExtentAllocator::rounded(record.length);
  return bytes <= limits_.arena_bytes && extent_offset(record) <= limits_.arena_bytes - bytes;
}

std::string_view RecoveryScan::key_of(const Record& record) const noexcept {
  // SAFETY: is_possible() bounded the number and the length.
  const char* bytes =
      record.long_key == kNone ? record.key_inline : long_keys_[record.long_key].bytes;
  return {bytes, record.key_bytes};
}

void RecoveryScan::look_at(std::uint32_t number, Range& range) noexcept {
  const Record& record = records_[number];
  const auto lose = [&range](RecoveryLoss loss) { ++range.lost[static_cast<std::size_t>(loss)]; };
  if (record.seal == 0) return;
  if (!is_sealed(record)) return lose(RecoveryLoss::damaged);
  if (!is_possible(record)) return lose(RecoveryLoss::impossible);
  if (record.key_check != key_check_of(key_of(record))) return lose(RecoveryLoss::damaged);
  range.generation_max = std::max(range.generation_max, record.generation);
  if (record.expires_ns != 0 && (!limits_.same_boot || record.expires_ns <= limits_.now_ns)) {
    return lose(RecoveryLoss::expired);
  }
  found_[range.first - 1 + range.found++] = {extent_offset(record), record.generation, number};
}

void RecoveryScan::drop_shared_long_keys() {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> claims;  // long key, record
  for (const Found& found : found_) {
    const std::uint32_t long_key = records_[found.number].long_key;
    if (long_key != kNone) claims.emplace_back(long_key, found.number);
  }
  std::sort(claims.begin(), claims.end());
  std::vector<std::uint32_t> shared;  // records
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const bool like_before = i > 0 && claims[i - 1].first == claims[i].first;
    const bool like_after = i + 1 < claims.size() && claims[i + 1].first == claims[i].first;
    if (like_before || like_after) shared.push_back(claims[i].second);
  }
  if (shared.empty()) return;
  std::sort(shared.begin(), shared.end());
  for (std::size_t i = 0; i < shared.size(); ++i) count(RecoveryLoss::overlapping);
  const auto is_shared = [&](const Found& found) {
    return std::binary_search(shared.begin(), shared.end(), found.number);
  };
  found_.erase(std::remove_if(found_.begin(), found_.end(), is_shared), found_.end());
}

// By address, each extent has to begin behind the end of all before it. Only the entry that reaches
// furthest so far is remembered: any other that reaches into the next one overlaps with it too, and
// has been found out.
void RecoveryScan::drop_overlapping(RecoveryCrew& crew) {
  crew_sort(
      found_, [](const Found& a, const Found& b) { return a.offset < b.offset; }, crew);
  std::vector<bool> bad(found_.size(), false);
  std::uint64_t end = 0;
  std::size_t furthest = 0;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    if (found_[i].offset < end) bad[i] = bad[furthest] = true;
    const std::uint64_t bytes = ExtentAllocator::rounded(records_[found_[i].number].length);
    if (found_[i].offset + bytes <= end) continue;
    end = found_[i].offset + bytes;
    furthest = i;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    if (bad[i]) {
      count(RecoveryLoss::overlapping);
    } else {
      found_[kept++] = found_[i];
    }
  }
  found_.resize(kept);
}

}  // namespace simm::store
