#include "daemon/tools/simm-bench/page_sizes.h"

#include <doctest/doctest.h>

#include <set>

namespace simm::bench::page_sizes_test {

TEST_CASE("lengths stay in their ranges and reach both ends") {
  const PageSizes sizes{"some", {{3, 5}, {9, 9}}};
  CHECK(sizes.least() == 3);
  CHECK(sizes.most() == 9);
  base::SeededRandom random(1);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(sizes.next(random));
  CHECK(seen == std::set<std::uint64_t>{3, 4, 5, 9});
}

TEST_CASE("mixed holds every length of the others but those of everything") {
  const PageSizes mixed = page_sizes_named("mixed");
  for (const PageSizes& sizes : known_page_sizes()) {
    if (sizes.name == "uniform_4k_8m") continue;
    CHECK_MESSAGE(sizes.least() >= mixed.least(), sizes.name);
    CHECK_MESSAGE(sizes.most() <= mixed.most(), sizes.name);
    CHECK(page_sizes_named(sizes.name).least() == sizes.least());
  }
}

}  // namespace simm::bench::page_sizes_test
