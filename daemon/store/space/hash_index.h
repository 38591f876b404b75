// HashIndex: from a 64-bit hash to candidate numbers. Linear hashing (W. Litwin, "Linear hashing: a
// new tool for file and table addressing", VLDB 1980) in buckets of one cache line: the table grows
// by one bucket at a time, an insertion splits at most one, so memory follows the number of entries
// and no operation ever rehashes everything. A full bucket goes on in lines of an overflow table.
//
// It knows no keys: the caller compares. A look-up is one cache line nearly always, 18 to 20 bytes
// an entry. Memory that has grown stays for the next growth. Thread: the data agent of the store.
#pragma once

#include <cstdint>

#include "daemon/store/space/table.h"

namespace simm::store {

class HashIndex {
public:
  // Entries of a bucket are the first `count` of a line; only the last line of a chain has room.
  struct alignas(64) Line {
    static constexpr std::uint32_t kEntries = 7;
    std::uint32_t next;            // in the overflow table; kNone: the last of its bucket
    std::uint32_t count;           // at least 1 in the overflow table
    std::uint32_t tags[kEntries];  // low half of the hash; its low bits choose the bucket
    std::uint32_t numbers[kEntries];
  };
  static_assert(sizeof(Line) == 64);

  static constexpr std::uint64_t bytes_for(std::uint32_t entries) {
    return buckets_for(entries) * sizeof(Line) + Table<Line>::bytes_for(entries);
  }

  // `memory`: bytes_for(entries) zeroed bytes that outlive the index, aligned to a cache line.
  HashIndex(void* memory, std::uint32_t entries) noexcept
      : buckets_(static_cast<Line*>(memory)),
        buckets_max_(buckets_for(entries)),
        // Every overflow line has an entry: there are never more of them.
        overflow_(buckets_ + buckets_max_, entries) {}

  // Inline always: g++ 12 takes a function that does nothing but prefetch for one without effect,
  // and drops calls of it.
  [[gnu::always_inline]] void prefetch(std::uint64_t hash) const noexcept {
    __builtin_prefetch(&buckets_[bucket_of(static_cast<std::uint32_t>(hash))]);
  }

  // The first entry of this hash for which `matches(number)`; kNone when there is none.
  template <typename Matches>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, Matches&& matches) const noexcept {
    const auto tag = static_cast<std::uint32_t>(hash);
    const Line* line = &buckets_[bucket_of(tag)];
    while (true) {
      for (std::uint32_t i = 0; i < line->count; ++i) {
        if (line->tags[i] == tag && matches(line->numbers[i])) return line->numbers[i];
      }
      if (line->next == kNone) return kNone;
      line = &overflow_[line->next];
    }
  }

  void insert(std::uint64_t hash, std::uint32_t number) noexcept;
  void remove(std::uint64_t hash, std::uint32_t number) noexcept;
  // Makes the entry of `old_number` name `new_number`: one store, nobody sees neither.
  void replace(std::uint64_t hash, std::uint32_t old_number, std::uint32_t new_number) noexcept;

  // Many entries at once, by several threads. prepare() gives an empty index the buckets that so
  // many entries need. Then place() may be called at the same time for entries of different
  // buckets, and find() and replace() beside it. False: the first line of the bucket is full.
  // At last settle() is told how many were placed, and the others are inserted one by one.
  void prepare(std::uint64_t entries) noexcept;
  [[nodiscard]] bool place(std::uint64_t hash, std::uint32_t number) noexcept;
  void settle(std::uint64_t placed) noexcept { entries_ += placed; }
  [[nodiscard]] std::uint64_t bucket_count() const noexcept { return round_ + split_; }
  // Buckets before split_ have been split in this round: they tell one more bit apart.
  [[nodiscard]] std::uint64_t bucket_of(std::uint32_t tag) const noexcept {
    const std::uint64_t coarse = tag & (round_ - 1);
    return coarse < split_ ? tag & (2 * round_ - 1) : coarse;
  }

  [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; }
  // Memory of the lines that were ever in use.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept {
    return (bucket_count() + overflow_.highest()) * sizeof(Line);
  }
  // Recounts, and proves that each entry can be found; for tests.
  [[nodiscard]] const char* audit() const noexcept;

private:
  // A split comes when there are more entries than kFill for two buckets. Just before its split a
  // bucket has twice the entries of one that was just split. With more, many would overflow.
  static constexpr std::uint64_t kFill = 7;
  static constexpr std::uint64_t kFirstBuckets = 64;

  static constexpr std::uint64_t buckets_for(std::uint32_t entries) {
    return kFirstBuckets + std::uint64_t{entries} * 2 / kFill;
  }

  struct Place {
    Line* line;
    std::uint32_t at;
  };
  [[nodiscard]] Place place_of(std::uint64_t hash, std::uint32_t number) noexcept;
  void append(Line* line, std::uint32_t tag, std::uint32_t number) noexcept;
  // Fills the place with the last entry of the bucket.
  void take_out(Line* bucket, Place place) noexcept;
  void split_one() noexcept;

  Line* buckets_;
  std::uint64_t buckets_max_;
  Table<Line> overflow_;
  std::uint64_t round_ = kFirstBuckets;  // buckets when the round began: a power of two
  std::uint64_t split_ = 0;              // the bucket that is split next
  std::uint64_t entries_ = 0;
};

}  // namespace simm::store
