#include "daemon/store/ghost_table.h"

#include <doctest/doctest.h>

#include <xxhash.h>

namespace simm::store::testing {

namespace {

std::uint64_t ghost_hash(std::uint64_t number) {
  return XXH3_64bits(&number, sizeof number);
}

}  // namespace

TEST_CASE("a ghost is known once, with its latest count") {
  auto ghosts = GhostTable::create(1000);
  REQUIRE(ghosts.has_value());
  CHECK(ghosts->take(ghost_hash(1)) == 0);
  ghosts->put(ghost_hash(1), 3);
  ghosts->put(ghost_hash(2), 255);
  ghosts->put(ghost_hash(1), 4);
  CHECK(ghosts->take(ghost_hash(1)) == 4);
  CHECK(ghosts->take(ghost_hash(1)) == 0);
  CHECK(ghosts->take(ghost_hash(2)) == 255);
}

TEST_CASE("the oldest ghosts of a full set are forgotten first") {
  auto ghosts = GhostTable::create(1);
  REQUIRE(ghosts.has_value());
  // All in one set: the low bits are equal, the tags are not.
  const auto in_one_set = [](std::uint64_t number) { return number << 40 | 5; };
  for (std::uint64_t n = 1; n <= 18; ++n) ghosts->put(in_one_set(n), 7);
  for (std::uint64_t n = 1; n <= 2; ++n) CHECK(ghosts->take(in_one_set(n)) == 0);
  for (std::uint64_t n = 3; n <= 18; ++n) CHECK(ghosts->take(in_one_set(n)) == 7);
}

TEST_CASE("as many ghosts are kept as groups are there, and at least three times that when full") {
  auto ghosts = GhostTable::create(100'000);
  REQUIRE(ghosts.has_value());
  constexpr std::uint32_t kGroups = 20'000;
  ghosts->fit(kGroups);
  for (std::uint64_t n = 0; n < 10 * kGroups; ++n) ghosts->put(ghost_hash(n), 1);
  std::uint32_t youngest = 0;
  std::uint32_t all = 0;
  for (std::uint64_t n = 10 * kGroups; n-- > 0;) {
    const bool known = ghosts->take(ghost_hash(n)) != 0;
    all += known ? 1 : 0;
    youngest += known && n >= 9 * kGroups ? 1 : 0;
  }
  CHECK(youngest > kGroups * 95 / 100);
  CHECK(all > 3 * kGroups);
}

}  // namespace simm::store::testing
