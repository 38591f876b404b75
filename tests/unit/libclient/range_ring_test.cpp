// RangeRing against a model that remembers every unit.
#include "libclient/range_ring.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

namespace range_ring_test {

using simm::detail::RangeRing;

TEST_CASE("fills to the last unit, starts again at 0 when empty") {
  RangeRing ring(10);
  CHECK(ring.allocate(11) == RangeRing::kNone);
  CHECK(ring.allocate(10) == 0);
  const std::uint64_t all = ring.mark();
  CHECK(ring.allocate(1) == RangeRing::kNone);
  ring.free_to(all);
  CHECK(ring.empty());
  CHECK(ring.allocate(4) == 0);
  ring.rollback(0);
  CHECK(ring.allocate(10) == 0);
}

TEST_CASE("random use never gives out a unit twice and gets everything back") {
  const char* const given = std::getenv("SIMM_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  INFO("repeat: SIMM_TEST_SEED=" << seed << " unit_client -tc='random use never*'");
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t capacity = 1 + random() % 100;
    RangeRing ring(capacity);
    std::vector<bool> taken(capacity);
    struct Range {
      std::uint64_t offset, length, mark;
    };
    std::deque<Range> ranges;
    for (int step = 0; step < 500; ++step) {
      const std::uint64_t length = 1 + random() % capacity;
      const std::uint64_t before = ring.mark();
      const std::uint64_t offset = ring.allocate(length);
      if (offset != RangeRing::kNone) {
        REQUIRE(offset + length <= capacity);
        if (random() % 4 == 0) {
          ring.rollback(before);
        } else {
          for (std::uint64_t i = offset; i < offset + length; ++i) {
            REQUIRE_FALSE(taken[i]);
            taken[i] = true;
          }
          ranges.push_back({offset, length, ring.mark()});
        }
      } else {
        REQUIRE_FALSE(ranges.empty());  // an empty ring takes all that fits it
      }
      while (!ranges.empty() && random() % 3 != 0) {
        const Range oldest = ranges.front();
        ranges.pop_front();
        ring.free_to(oldest.mark);
        for (std::uint64_t i = 0; i < oldest.length; ++i) taken[oldest.offset + i] = false;
      }
      REQUIRE(ring.empty() == ranges.empty());
    }
  }
}

}  // namespace range_ring_test
