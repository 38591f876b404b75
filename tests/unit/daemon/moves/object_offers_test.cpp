// The bytes in a second that movers may send.
#include "daemon/moves/object_offers.h"

#include <doctest/doctest.h>

#include "daemon/base/manual_clock.h"

namespace object_offers_test {

using namespace simm;

// Until it has some, by its own next times.
base::TimeNs await(moves::OfferBudget& budget, base::ManualClock& clock) {
  const base::TimeNs begun_ns = clock.now_ns();
  for (int looks = 0; looks < 2'000; ++looks) {
    budget.refill();
    if (budget.has_some()) return clock.now_ns() - begun_ns;
    REQUIRE(budget.next_ns() > clock.now_ns());  // else its agent would never sleep
    clock.advance_ns(budget.next_ns() - clock.now_ns());
  }
  FAIL("never");
  return 0;
}

TEST_CASE("a budget of any size comes together, and between two looks its agent sleeps") {
  for (const std::uint64_t bytes_per_s :
       {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{999}, std::uint64_t{1'001},
        std::uint64_t{1} << 20, std::uint64_t{1} << 40}) {
    CAPTURE(bytes_per_s);
    base::ManualClock clock{1000 * base::kNsPerSecond};
    moves::OfferBudget budget(bytes_per_s, clock);
    budget.begin();
    CHECK_FALSE(budget.has_some());
    CHECK(await(budget, clock) <= base::kNsPerSecond + base::kNsPerMs);
    // What was spent before its time is waited for.
    std::uint64_t spent = 0;
    const base::TimeNs begun_ns = clock.now_ns();
    for (int round = 0; round < 20; ++round) {
      const std::uint64_t some = std::max<std::uint64_t>(bytes_per_s / 4, 1);
      budget.spend(some);
      spent += some;
      await(budget, clock);
    }
    const double seconds = static_cast<double>(clock.now_ns() - begun_ns) * 1e-9;
    const double wanted = static_cast<double>(spent) / static_cast<double>(bytes_per_s);
    CHECK(seconds > wanted * 0.9);
    CHECK(seconds < wanted * 1.25 + 0.1);
  }
}

}  // namespace object_offers_test
