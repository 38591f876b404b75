#include "daemon/store/pool/recovery_scan.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "daemon/store/pool/crew_sort.h"
#include "daemon/store/pool/record_seal.h"

namespace simm::store {

namespace {

// No store gets here; and the next life counts on from what it finds.
constexpr std::uint64_t kGenerationMax = std::uint64_t{1} << 62;

// As many tenants as a store counts apart, and some of an earlier configuration.
constexpr std::size_t kTenantsListed = 256;

// A range of the table that is about to be read is mapped by one call instead of a fault for every
// few pages, after which lines can be asked for ahead. Kernels before 5.14 refuse: it is slower.
void map_ahead(const Record* first, const Record* end) noexcept {
#ifdef MADV_POPULATE_READ
  constexpr std::uintptr_t kPageBytes = 4096;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(first) / kPageBytes * kPageBytes;
  // SAFETY: whole pages of the table; the last one holds a record.
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin),
                              reinterpret_cast<std::uintptr_t>(end) - begin, MADV_POPULATE_READ));
#else
  static_cast<void>(first);
  static_cast<void>(end);
#endif
}

// Inline always, see HashIndex::prefetch().
[[gnu::always_inline]] inline void ask_for(const Record& record) noexcept {
  for (std::size_t at = 0; at < sizeof(Record); at += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(&record) + at);
  }
}

}  // namespace

RecoveryScan::RecoveryScan(const Table<Record>& records, const Table<LongKey>& long_keys,
                           const Limits& limits, RecoveryCrew& crew)
    : records_(records),
      long_keys_(long_keys),
      limits_(limits),
      by_address_(limits.highest),
      by_age_(limits.highest),
      tags_(limits.highest),
      kept_(limits.highest + std::size_t{1}) {
  look_at_all(crew);
  if (crew.stopping()) return;
  drop_shared_long_keys();
  CrewArray<Found> scratch(by_address_.size());
  const auto order = [](const Found& found) { return found.order; };
  crew_sort(by_address_, scratch, order, crew);
  drop_overlapping();
  crew_sort(by_age_, scratch, order, crew);
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
    ranges.push_back(std::move(range));
    at += count;
  }
  crew.run(ranges.size(), [&](std::size_t part) {
    Range& range = ranges[part];
    map_ahead(&records_[range.first], &records_[range.end]);
    for (std::uint32_t n = range.first; n < range.end && !crew.stopping(); ++n) {
      constexpr std::uint32_t kAhead = 16;
      if (range.end - n > kAhead) ask_for(records_[n + kAhead]);
      look_at(n, range);
    }
    crew.advance(range.end - range.first);
  });
  gather(ranges);
}

void RecoveryScan::gather(std::vector<Range>& ranges) {
  std::size_t kept = 0;
  for (Range& range : ranges) {
    const std::size_t from = range.first - 1;
    if (from != kept) {  // to the front: std::copy_n() allows that
      std::copy_n(by_address_.begin() + from, range.found, by_address_.begin() + kept);
      std::copy_n(by_age_.begin() + from, range.found, by_age_.begin() + kept);
      std::copy_n(tags_.begin() + from, range.found, tags_.begin() + kept);
    }
    kept += range.found;
    generation_max_ = std::max(generation_max_, range.generation_max);
    for (std::size_t i = 0; i < lost_.size(); ++i) lost_[i] += range.lost[i];
    if (range.holds_more) lists_all_tenants_ = false;
    for (const Held& held : range.held) {
      if (!add_to(held_, held)) lists_all_tenants_ = false;
    }
    long_claims_.insert(long_claims_.end(), range.long_claims.begin(), range.long_claims.end());
  }
  by_address_.shorten(kept);
  by_age_.shorten(kept);
  tags_.shorten(kept);
}

bool RecoveryScan::add_to(std::vector<Held>& held, const Held& more) {
  for (std::size_t i = held.size(); i > 0; --i) {
    if (held[i - 1].tenant != more.tenant) continue;
    held[i - 1].extent_bytes += more.extent_bytes;
    return true;
  }
  if (held.size() == kTenantsListed) return false;
  held.push_back(more);
  return true;
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

void RecoveryScan::look_at(std::uint32_t number, Range& range) {
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
  const std::size_t at = range.first - 1 + range.found++;
  const std::uint64_t extent_bytes = ExtentAllocator::rounded(record.length);
  const auto granules = static_cast<std::uint32_t>(extent_bytes / ExtentAllocator::kGranuleBytes);
  by_address_[at] = {extent_offset(record), number, granules};
  by_age_[at] = {record.generation, number, granules};
  tags_[at] = {static_cast<std::uint32_t>(record.hash.low), number};
  kept_[number] = 1;
  if (!add_to(range.held, {record.tenant, extent_bytes})) range.holds_more = true;
  if (record.long_key != kNone) range.long_claims.emplace_back(record.long_key, number);
}

void RecoveryScan::drop_shared_long_keys() {
  std::sort(long_claims_.begin(), long_claims_.end());
  const auto shares = [&](std::size_t i) {
    const auto& claims = long_claims_;
    return (i > 0 && claims[i - 1].first == claims[i].first) ||
           (i + 1 < claims.size() && claims[i + 1].first == claims[i].first);
  };
  bool dropped = false;
  for (std::size_t i = 0; i < long_claims_.size(); ++i) {
    if (!shares(i)) continue;
    drop(long_claims_[i].second);
    count(RecoveryLoss::overlapping);
    dropped = true;
  }
  if (dropped) shed();
}

// By address, each extent has to begin behind the end of all before it. Only the entry that reaches
// furthest so far is remembered: any other that reaches into the next one overlaps with it too, and
// has been found out.
void RecoveryScan::drop_overlapping() {
  std::uint64_t end = 0;
  std::size_t furthest = 0;
  bool dropped = false;
  const auto drop_once = [&](std::uint32_t number) {
    if (!keeps(number)) return;
    drop(number);
    count(RecoveryLoss::overlapping);
    dropped = true;
  };
  for (std::size_t i = 0; i < by_address_.size(); ++i) {
    const Found& found = by_address_[i];
    if (found.order < end) {
      drop_once(found.number);
      drop_once(by_address_[furthest].number);
    }
    if (found.order + found.extent_bytes() <= end) continue;
    end = found.order + found.extent_bytes();
    furthest = i;
  }
  if (dropped) shed();
}

void RecoveryScan::shed() noexcept {
  const auto gone = [this](const auto& entry) { return !keeps(entry.number); };
  for (CrewArray<Found>* list : {&by_address_, &by_age_}) {
    const Found* const end = std::remove_if(list->begin(), list->end(), gone);
    list->shorten(static_cast<std::size_t>(end - list->begin()));
  }
  const IndexFill::Entry* const end = std::remove_if(tags_.begin(), tags_.end(), gone);
  tags_.shorten(static_cast<std::size_t>(end - tags_.begin()));
}

}  // namespace simm::store
