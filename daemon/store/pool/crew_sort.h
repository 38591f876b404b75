// crew_sort(): sorts a long array by a number, with the threads of a RecoveryCrew. Elements go to
// parts by the high bits of their number, and inside a part to places by the next ones; what is
// left to sort is a few elements at each place. Two passes over memory where numbers are spread
// evenly, as addresses and generations are; std::sort() where they are not.
// crew_partition(): its first half alone.
// Thread: the one that recovers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "daemon/store/pool/crew_array.h"
#include "daemon/store/pool/recovery_crew.h"

namespace simm::store {

// The part of [0, size) that one of several equal chunks is.
struct Chunks {
  std::size_t size;
  std::size_t count;

  Chunks(std::size_t elements, const RecoveryCrew& crew) noexcept
      : size(elements),
        count(crew.threads() == 1 || elements < kWorthIt ? 1 : 4 * crew.threads()) {}
  [[nodiscard]] std::size_t begin(std::size_t chunk) const noexcept { return size * chunk / count; }
  [[nodiscard]] std::size_t end(std::size_t chunk) const noexcept { return begin(chunk + 1); }

private:
  static constexpr std::size_t kWorthIt = std::size_t{1} << 14;  // fewer are not worth a thread
};

// Copies `all` to `to`, sorted by part_of(element), which is below `parts`. Returns where each part
// begins, and the end of the last.
template <typename T, typename PartOf>
std::vector<std::size_t> crew_partition(std::span<const T> all, T* to, std::size_t parts,
                                        PartOf part_of, RecoveryCrew& crew) {
  const Chunks chunks(all.size(), crew);
  std::vector<std::vector<std::size_t>> at(chunks.count, std::vector<std::size_t>(parts, 0));
  crew.run(chunks.count, [&](std::size_t chunk) {
    std::vector<std::size_t>& counts = at[chunk];
    for (std::size_t i = chunks.begin(chunk); i < chunks.end(chunk); ++i) ++counts[part_of(all[i])];
  });
  std::vector<std::size_t> begins(parts + 1, 0);
  std::size_t next = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    begins[part] = next;
    for (std::vector<std::size_t>& counts : at) {
      const std::size_t count = counts[part];
      counts[part] = next;
      next += count;
    }
  }
  begins[parts] = next;
  crew.run(chunks.count, [&](std::size_t chunk) {
    std::vector<std::size_t>& places = at[chunk];
    for (std::size_t i = chunks.begin(chunk); i < chunks.end(chunk); ++i) {
      to[places[part_of(all[i])]++] = all[i];
    }
  });
  return begins;
}

// One part, from `part` to `to`: all its keys are the same above their lowest `bits` bits.
template <typename T, typename Key>
void sort_part(std::span<const T> part, T* to, unsigned bits, Key key) {
  constexpr std::size_t kPlacesMax = 8192;
  constexpr std::size_t kFew = 32;
  const std::size_t wanted = std::min(std::bit_ceil(part.size()), kPlacesMax);
  const unsigned place_bits = std::min(bits, static_cast<unsigned>(std::countr_zero(wanted)));
  const unsigned shift = bits - place_bits;
  const std::uint64_t mask = (std::uint64_t{1} << place_bits) - 1;
  std::array<std::uint32_t, kPlacesMax + 1> ends{};
  const auto place_of = [&](const T& element) { return key(element) >> shift & mask; };
  for (const T& element : part) ++ends[place_of(element) + 1];
  for (std::size_t place = 1; place <= mask; ++place) ends[place + 1] += ends[place];
  for (const T& element : part) to[ends[place_of(element)]++] = element;
  const auto before = [&](const T& a, const T& b) { return key(a) < key(b); };
  std::size_t from = 0;
  for (std::size_t place = 0; place <= mask; ++place) {
    const std::size_t end = ends[place];
    if (end - from > kFew) {
      std::sort(to + from, to + end, before);
    } else {
      for (std::size_t i = from + 1; i < end; ++i) {
        const T element = to[i];
        std::size_t at = i;
        for (; at > from && key(element) < key(to[at - 1]); --at) to[at] = to[at - 1];
        to[at] = element;
      }
    }
    from = end;
  }
}

// By key(element), a std::uint64_t. Equal elements end in any order. `scratch` is as long as `all`
// at least.
template <typename T, typename Key>
void crew_sort(CrewArray<T>& all, CrewArray<T>& scratch, Key key, RecoveryCrew& crew) {
  struct Seen {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t most = 0;
    bool sorted = true;
  };
  const Chunks chunks(all.size(), crew);
  std::vector<Seen> of_chunks(chunks.count);
  crew.run(chunks.count, [&](std::size_t chunk) {
    Seen seen;
    const std::size_t first = chunks.begin(chunk);
    for (std::size_t i = first; i < chunks.end(chunk); ++i) {
      const std::uint64_t k = key(all[i]);
      if (i > 0 && k < key(all[i - 1])) seen.sorted = false;
      seen.least = std::min(seen.least, k);
      seen.most = std::max(seen.most, k);
    }
    of_chunks[chunk] = seen;
  });
  Seen seen;
  for (const Seen& one : of_chunks) {
    seen.least = std::min(seen.least, one.least);
    seen.most = std::max(seen.most, one.most);
    seen.sorted = seen.sorted && one.sorted;
  }
  if (seen.sorted) return;
  constexpr std::size_t kPartsMax = 4096;
  constexpr std::size_t kPartElements = 2048;
  const std::size_t wanted = std::min(std::bit_ceil(all.size() / kPartElements + 1), kPartsMax);
  const auto range_bits = static_cast<unsigned>(std::bit_width(seen.most - seen.least));
  const auto part_bits = static_cast<unsigned>(std::countr_zero(wanted));
  // Numbers of all 64 bits make two parts at least: a shift has to be shorter than its word.
  const unsigned bits = range_bits > part_bits ? std::min(range_bits - part_bits, 63u) : 0;
  const auto from_least = [&](const T& element) { return key(element) - seen.least; };
  const std::size_t parts = ((seen.most - seen.least) >> bits) + 1;
  const std::vector<std::size_t> begins = crew_partition<T>(
      {all.data(), all.size()}, scratch.data(), parts,
      [&](const T& element) { return static_cast<std::size_t>(from_least(element) >> bits); },
      crew);
  crew.run(parts, [&](std::size_t part) {
    const std::size_t begin = begins[part];
    sort_part<T>({scratch.data() + begin, begins[part + 1] - begin}, all.data() + begin, bits,
                 from_least);
  });
}

}  // namespace simm::store
