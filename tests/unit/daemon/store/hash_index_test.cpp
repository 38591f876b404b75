#include "daemon/store/hash_index.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "daemon/base/random.h"

namespace simm::store::testing {

TEST_CASE("runs of colliding hashes survive removals in any order") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='runs of colliding*'");
  base::SeededRandom random(seed);
  for (int round = 0; round < 50; ++round) {
    const auto entries = static_cast<std::uint32_t>(1 + random.below(40));
    std::vector<HashIndex::Slot> memory(HashIndex::slots_for(entries));
    HashIndex index(memory.data(), entries);
    std::map<std::uint32_t, std::uint64_t> model;
    for (int i = 0; i < 500; ++i) {
      const auto number = static_cast<std::uint32_t>(1 + random.below(60));
      const auto known = model.find(number);
      if (known != model.end()) {
        index.remove(known->second, number);
        model.erase(known);
      } else if (model.size() < entries) {
        // Few homes, many of them at the end of the table, so that runs wrap around.
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

TEST_CASE("replace changes the number, and nothing else") {
  std::vector<HashIndex::Slot> memory(HashIndex::slots_for(4));
  HashIndex index(memory.data(), 4);
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
