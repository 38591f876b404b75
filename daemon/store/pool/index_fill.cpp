#include "daemon/store/pool/index_fill.h"

#include <cstddef>
#include <vector>

#include "daemon/store/pool/crew_sort.h"

namespace simm::store {

bool IndexFill::is_new(const Entry& entry, std::uint64_t& dropped) noexcept {
  const std::uint32_t other = index_.find(
      entry.tag, [&](std::uint32_t candidate) { return same_(candidate, entry.number); });
  if (other == kNone) return true;
  ++dropped;
  if (newer_(entry.number, other)) {
    index_.replace(entry.tag, other, entry.number);
    drop_(other);
  } else {
    drop_(entry.number);
  }
  return false;
}

std::uint64_t IndexFill::run(const CrewArray<Entry>& entries, RecoveryCrew& crew) {
  constexpr std::uint64_t kPartBuckets = 4096;  // 256 KiB
  index_.prepare(entries.size());
  const std::size_t part_count = (index_.bucket_count() + kPartBuckets - 1) / kPartBuckets;
  CrewArray<Entry> sorted(entries.size());
  const std::vector<std::size_t> begins = crew_partition<Entry>(
      {entries.data(), entries.size()}, sorted.data(), part_count,
      [&](const Entry& entry) { return index_.bucket_of(entry.tag) / kPartBuckets; }, crew);
  struct Part {
    std::uint64_t placed = 0;
    std::uint64_t dropped = 0;
    std::vector<Entry> left;
  };
  std::vector<Part> parts(part_count);
  crew.run(part_count, [&](std::size_t number) {
    Part part;
    for (std::size_t i = begins[number]; i < begins[number + 1] && !crew.stopping(); ++i) {
      if (!is_new(sorted[i], part.dropped)) continue;
      if (index_.place(sorted[i].tag, sorted[i].number)) {
        ++part.placed;
      } else {
        part.left.push_back(sorted[i]);
      }
    }
    crew.advance(begins[number + 1] - begins[number]);
    parts[number] = std::move(part);
  });
  std::uint64_t dropped = 0;
  for (const Part& part : parts) index_.settle(part.placed);
  for (Part& part : parts) {
    for (const Entry& entry : part.left) {
      if (is_new(entry, part.dropped)) index_.insert(entry.tag, entry.number);
    }
    dropped += part.dropped;
  }
  return dropped;
}

}  // namespace simm::store
