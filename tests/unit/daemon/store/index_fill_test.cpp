// Many entries into an index at once: all are found, and of those that are the same the newest.
#include "daemon/store/pool/index_fill.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "daemon/base/random.h"

namespace simm::store::testing {

TEST_CASE("index fill: several threads place all, and the newest of the same entries stays") {
  constexpr std::uint32_t kEntries = 200'000;
  for (const std::uint32_t threads : {1u, 4u}) {
    CAPTURE(threads);
    base::SeededRandom random(5);
    // Object and age by number. Two objects may have one tag; one in four entries is a second one.
    std::vector<std::uint32_t> object_of(kEntries + 1);
    std::vector<std::uint64_t> age_of(kEntries + 1);
    std::map<std::uint32_t, std::uint32_t> newest;
    CrewArray<IndexFill::Entry> entries(kEntries);
    for (std::uint32_t n = 1; n <= kEntries; ++n) {
      const bool again = n > 1 && random.below(4) == 0;
      object_of[n] = again ? object_of[1 + random.below(n - 1)] : n;
      age_of[n] = random.next();
      entries[n - 1] = {object_of[n] / 2 * 0x9e3779b9u, n};
      std::uint32_t& best = newest[object_of[n]];
      if (best == kNone || age_of[n] > age_of[best]) best = n;
    }
    std::vector<HashIndex::Line> memory(HashIndex::bytes_for(kEntries) / sizeof(HashIndex::Line) +
                                        1);
    HashIndex index(memory.data(), kEntries);
    const IndexFill::Compare same = [&](auto a, auto b) { return object_of[a] == object_of[b]; };
    const IndexFill::Compare newer = [&](auto a, auto b) { return age_of[a] > age_of[b]; };
    std::vector<std::atomic<bool>> gone(kEntries + 1);
    const IndexFill::Drop drop = [&](std::uint32_t number) { CHECK(!gone[number].exchange(true)); };
    RecoveryCrew crew(threads);
    const std::uint64_t dropped = IndexFill(index, same, newer, drop).run(entries, crew);
    CHECK(dropped == kEntries - newest.size());
    CHECK(index.entries() == newest.size());
    CHECK(index.audit() == nullptr);
    CHECK(crew.done() == kEntries);
    std::uint32_t wrong = 0;
    for (std::uint32_t n = 1; n <= kEntries; ++n) {
      const std::uint32_t best = newest[object_of[n]];
      if (gone[n] == (n == best)) ++wrong;
      if (index.find(entries[n - 1].tag, [&](auto c) { return c == n; }) != (n == best ? n : kNone))
        ++wrong;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace simm::store::testing
