#include "daemon/tools/simm-bench/page_pattern.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace simm::bench {
namespace {

// One multiplication per word: checking must cost less than copying. The increments and the factor
// are the odd constants of Steele, Lea, Flood, "Fast splittable pseudorandom number generators".
std::uint64_t word_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t word = seed + index * 0x9e3779b97f4a7c15;
  word ^= word >> 32;
  word *= 0xbf58476d1ce4e5b9;
  return word ^ word >> 29;
}

}  // namespace

void fill_page(std::string_view key, void* page, std::size_t bytes) {
  const std::uint64_t seed = XXH3_64bits(key.data(), key.size());
  auto* at = static_cast<unsigned char*>(page);
  for (std::size_t offset = 0; offset < bytes; offset += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(seed, offset / sizeof(std::uint64_t));
    // SAFETY: the last word is cut to what is left of the page.
    std::memcpy(at + offset, &word, std::min(sizeof word, bytes - offset));
  }
}

std::size_t count_wrong_bytes(std::string_view key, const void* page, std::size_t bytes) {
  const std::uint64_t seed = XXH3_64bits(key.data(), key.size());
  const auto* at = static_cast<const unsigned char*>(page);
  std::size_t wrong = 0;
  for (std::size_t offset = 0; offset < bytes; offset += sizeof(std::uint64_t)) {
    const std::uint64_t expected = word_at(seed, offset / sizeof(std::uint64_t));
    const std::size_t length = std::min(sizeof expected, bytes - offset);
    std::uint64_t found = expected;
    std::memcpy(&found, at + offset, length);
    for (std::uint64_t differing = expected ^ found; differing != 0; differing >>= 8) {
      wrong += (differing & 0xff) != 0;
    }
  }
  return wrong;
}

}  // namespace simm::bench
