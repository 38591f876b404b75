#include "daemon/tools/simm-bench/policy_replay.h"

#include <doctest/doctest.h>

#include "daemon/base/choice.h"
#include "daemon/base/choices.h"
#include "daemon/tools/simm-bench/policy_rivals.h"
#include "daemon/tools/simm-bench/policy_workloads.h"

namespace simm::bench::testing {

TEST_CASE("a policy workload is the same for the same seed, and in the order of time") {
  for (const PolicyWorkload& one : policy_workloads()) {
    CAPTURE(one.name);
    const PolicyTraffic traffic = one.traffic(3, 0.02);
    const PolicyTraffic again = one.traffic(3, 0.02);
    REQUIRE(traffic.requests().size() == again.requests().size());
    REQUIRE(traffic.requests().size() > 0);
    std::uint64_t counted = 0;
    double at_s = 0;
    for (std::size_t i = 0; i < traffic.requests().size(); ++i) {
      const PolicyRequest& request = traffic.requests()[i];
      if (request.pages != again.requests()[i].pages) FAIL("other pages");
      if (request.at_s < at_s) FAIL("time goes back");
      at_s = request.at_s;
      counted += request.counts ? 1 : 0;
    }
    CHECK(counted > 0);
  }
}

TEST_CASE(
    "in a policy replay no policy hits more than Belady's, and all hit all in a large cache") {
  for (const PolicyWorkload& one : policy_workloads()) {
    CAPTURE(one.name);
    const PolicyReplay replay(one.traffic(3, 0.02));
    for (const auto kind : base::all_choices<store::EvictionKind>(base::kEvictionNames)) {
      const auto small = replay.hits(kind, 0.1);
      const auto large = replay.hits(kind, 1);
      REQUIRE((small && large));
      // Belady's rule is the best for pages of one length.
      if (one.name != std::string_view("mixed_sizes")) CHECK(*small <= replay.belady_hits(0.1));
      CHECK(*large == doctest::Approx(replay.belady_hits(1)));
    }
    CHECK(replay.s3_fifo_hits(0.1) <= replay.belady_hits(0.1) + 0.05);
  }
}

TEST_CASE("S3-FIFO: what was used twice in the small queue stays, what comes back as a ghost too") {
  S3FifoCache cache(100, 10);
  for (std::uint32_t page = 0; page < 10; ++page) cache.put(page, 1);
  cache.use(0);
  cache.use(0);
  for (std::uint32_t page = 10; page < 19; ++page) cache.put(page, 1);
  CHECK(cache.has(0));
  CHECK_FALSE(cache.has(1));
  CHECK_FALSE(cache.has(9));
  cache.put(9, 1);  // a ghost: it goes where 0 is
  for (std::uint32_t page = 20; page < 40; ++page) cache.put(page, 1);
  CHECK(cache.has(0));
  CHECK(cache.has(9));
}

TEST_CASE("Belady's rule drops what is used last, and keeps nothing that is not used again") {
  BeladyCache cache(10, 2);
  cache.use(1, 1, 5);
  cache.use(2, 1, 9);
  cache.use(3, 1, 7);
  CHECK(cache.has(1));
  CHECK_FALSE(cache.has(2));
  CHECK(cache.has(3));
  cache.use(4, 1, BeladyCache::kNever);
  CHECK_FALSE(cache.has(4));
  cache.use(1, 1, BeladyCache::kNever);
  CHECK_FALSE(cache.has(1));
}

}  // namespace simm::bench::testing
