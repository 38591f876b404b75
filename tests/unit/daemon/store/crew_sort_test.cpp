// Sorting with a crew, for numbers that are spread evenly and for numbers that are not.
#include "daemon/store/pool/crew_sort.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "daemon/base/random.h"

namespace simm::store::testing {

TEST_CASE("crew sort: any spread of numbers comes out as std::sort() has it") {
  constexpr std::size_t kSize = 100'000;  // several chunks, parts and threads
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  base::SeededRandom random(11);
  const auto draw = [&](int spread, std::size_t at) -> std::uint64_t {
    switch (spread) {
      case 0:
        return random.next();  // all bits
      case 1:
        return 1000 + at;  // sorted
      case 2:
        return kTop - at;  // the other way round
      case 3:
        return at == 0 ? kTop : random.next() % 1000;  // nearly all in one part
      case 4:
        return 7;  // all equal
      default:
        return std::uint64_t{1} << (random.next() % 64);  // few of very different size
    }
  };
  for (const std::uint32_t threads : {1u, 4u}) {
    for (int spread = 0; spread < 6; ++spread) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kSize}) {
        CAPTURE(threads);
        CAPTURE(spread);
        CAPTURE(size);
        RecoveryCrew crew(threads);
        CrewArray<std::uint64_t> all(size);
        CrewArray<std::uint64_t> scratch(size);
        for (std::size_t i = 0; i < size; ++i) all[i] = draw(spread, i);
        std::vector<std::uint64_t> wanted(all.begin(), all.end());
        std::sort(wanted.begin(), wanted.end());
        crew_sort(
            all, scratch, [](std::uint64_t number) { return number; }, crew);
        CHECK(std::equal(all.begin(), all.end(), wanted.begin(), wanted.end()));
      }
    }
  }
}

}  // namespace simm::store::testing
