#include "daemon/store/space/hash_index.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/random.h"

namespace simm::store::testing {

namespace {

struct OwnedIndex {
  explicit OwnedIndex(std::uint32_t entries)
      : memory(HashIndex::bytes_for(entries) / sizeof(HashIndex::Line) + 1),
        index(memory.data(), entries) {}
  std::vector<HashIndex::Line> memory;
  HashIndex index;
};

}  // namespace

TEST_CASE("chains of colliding hashes survive removals in any order") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='chains of colliding*'");
  base::SeededRandom random(seed);
  for (int round = 0; round < 50; ++round) {
    const auto entries = static_cast<std::uint32_t>(1 + random.below(40));
    OwnedIndex owned(entries);
    HashIndex& index = owned.index;
    std::map<std::uint32_t, std::uint64_t> model;
    for (int i = 0; i < 500; ++i) {
      const auto number = static_cast<std::uint32_t>(1 + random.below(60));
      const auto known = model.find(number);
      if (known != model.end()) {
        index.remove(known->second, number);
        model.erase(known);
      } else if (model.size() < entries) {
        // Few buckets, so that these overflow, and some hashes more than once.
        const std::uint64_t hash = ~std::uint64_t{0} - random.below(6) * 7;
        index.insert(hash, number);
        model.emplace(number, hash);
      }
      const char* wrong = index.audit();
      REQUIRE_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
      for (const auto& [n, hash] : model) {
        CHECK(index.find(hash, [want = n](std::uint32_t found) { return found == want; }) == n);
      }
      CHECK(index.entries() == model.size());
    }
  }
}

TEST_CASE("an index grows bucket by bucket, finds everything meanwhile, and stays small") {
  constexpr std::uint32_t kEntries = 60'000;
  const base::KeyHasher hasher(7);
  const auto hash_of = [&](std::uint32_t n) {
    return hasher({reinterpret_cast<const char*>(&n), sizeof n}).low;
  };
  OwnedIndex owned(kEntries);
  HashIndex& index = owned.index;
  const auto finds = [&](std::uint32_t n) {
    return index.find(hash_of(n), [n](std::uint32_t found) { return found == n; }) == n;
  };
  for (std::uint32_t n = 1; n <= kEntries; ++n) {
    const std::uint64_t before = index.used_bytes();
    index.insert(hash_of(n), n);
    // One bucket at most, and what overflows of it.
    CHECK(index.used_bytes() - before <= 4 * sizeof(HashIndex::Line));
    if (n % 1000 == 0) {
      REQUIRE(index.audit() == nullptr);
      for (std::uint32_t known = n; known > n - 1000; --known) REQUIRE(finds(known));
      for (std::uint32_t known = 1; known < n; known += 97) REQUIRE(finds(known));
      CHECK_FALSE(finds(n + 1));
      if (n >= 10'000) CHECK(index.used_bytes() <= std::uint64_t{n} * 24);
    }
  }
  for (std::uint32_t n = 1; n <= kEntries; n += 2) index.remove(hash_of(n), n);
  for (std::uint32_t n = 1; n <= kEntries; ++n) REQUIRE(finds(n) == (n % 2 == 0));
  for (std::uint32_t n = 2; n <= kEntries; n += 2) index.remove(hash_of(n), n);
  CHECK(index.entries() == 0);
  CHECK(index.audit() == nullptr);
}

TEST_CASE("replace changes the number, and nothing else") {
  OwnedIndex owned(4);
  HashIndex& index = owned.index;
  index.insert(5, 1);
  index.insert(5, 2);
  index.replace(5, 1, 3);
  const auto any = [](std::uint32_t) { return true; };
  CHECK(index.find(5, any) == 3);
  CHECK(index.find(5, [](std::uint32_t n) { return n == 2; }) == 2);
  CHECK(index.find(6, any) == kNone);
  CHECK(index.entries() == 2);
}

}  // namespace simm::store::testing
