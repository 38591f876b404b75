#include "daemon/store/eviction/ghost_table.h"

#include <doctest/doctest.h>

#include <xxhash.h>

namespace simm::store::testing {

namespace {

constexpr std::uint32_t kAll = GhostTable::kWays;

std::uint64_t ghost_hash(std::uint64_t number) {
  return XXH3_64bits(&number, sizeof number);
}

}  // namespace

TEST_CASE("a ghost is known once, with its latest count") {
  auto ghosts = GhostTable::create(1000);
  REQUIRE(ghosts.has_value());
  CHECK(ghosts->take(ghost_hash(1), 1) == 0);
  ghosts->put(ghost_hash(1), 1, 3, kAll);
  ghosts->put(ghost_hash(2), 1, 255, kAll);
  ghosts->put(ghost_hash(1), 1, 4, kAll);
  CHECK(ghosts->take(ghost_hash(1), 2) == 0);  // another account's
  CHECK(ghosts->take(ghost_hash(1), 1) == 4);
  CHECK(ghosts->take(ghost_hash(1), 1) == 0);
  CHECK(ghosts->take(ghost_hash(2), 1) == GhostTable::kUsesMost);
}

TEST_CASE("the oldest ghosts of a full set are forgotten first") {
  auto ghosts = GhostTable::create(1);
  REQUIRE(ghosts.has_value());
  // All in one set: the low bits are equal, the tags are not.
  const auto in_one_set = [](std::uint64_t number) { return number << 44 | 5; };
  for (std::uint64_t n = 1; n <= 18; ++n) ghosts->put(in_one_set(n), 1, 7, kAll);
  for (std::uint64_t n = 1; n <= 2; ++n) CHECK(ghosts->take(in_one_set(n), 1) == 0);
  for (std::uint64_t n = 3; n <= 18; ++n) CHECK(ghosts->take(in_one_set(n), 1) == 7);
}

TEST_CASE("who loses much pushes out no ghosts of another account's part") {
  auto ghosts = GhostTable::create(1);
  REQUIRE(ghosts.has_value());
  const auto in_one_set = [](std::uint64_t number) { return number << 44 | 5; };
  for (std::uint64_t n = 1; n <= 16; ++n) ghosts->put(in_one_set(n), 2, 2, kAll);
  for (std::uint64_t n = 101; n <= 106; ++n) ghosts->put(in_one_set(n), 1, 1, 6);
  for (std::uint64_t n = 1000; n < 2000; ++n) ghosts->put(in_one_set(n), 2, 2, 10);
  for (std::uint64_t n = 101; n <= 106; ++n) CHECK(ghosts->take(in_one_set(n), 1) == 1);
  // What came back leaves places, which are its account's again.
  for (std::uint64_t n = 2000; n < 3000; ++n) ghosts->put(in_one_set(n), 2, 2, 10);
  for (std::uint64_t n = 201; n <= 206; ++n) ghosts->put(in_one_set(n), 1, 1, 6);
  for (std::uint64_t n = 2990; n < 3000; ++n) CHECK(ghosts->take(in_one_set(n), 2) == 2);
  for (std::uint64_t n = 201; n <= 206; ++n) CHECK(ghosts->take(in_one_set(n), 1) == 1);
}

TEST_CASE("as many ghosts are kept as groups are there, and at least three times that when full") {
  auto ghosts = GhostTable::create(100'000);
  REQUIRE(ghosts.has_value());
  constexpr std::uint32_t kGroups = 20'000;
  ghosts->fit(kGroups);
  for (std::uint64_t n = 0; n < 10 * kGroups; ++n) ghosts->put(ghost_hash(n), 1, 1, kAll);
  std::uint32_t youngest = 0;
  std::uint32_t all = 0;
  for (std::uint64_t n = 10 * kGroups; n-- > 0;) {
    const bool known = ghosts->take(ghost_hash(n), 1) != 0;
    all += known ? 1 : 0;
    youngest += known && n >= 9 * kGroups ? 1 : 0;
  }
  CHECK(youngest > kGroups * 95 / 100);
  CHECK(all > 3 * kGroups);
}

}  // namespace simm::store::testing
