// Whoever probes everything all the time gets leases on everything, and still no put waits.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

constexpr std::uint64_t kPage = 1024;
constexpr int kPages = 64;  // fill the arena

OwnedKey flood_key(int number) {
  return OwnedKey("page" + std::to_string(number));
}

// Puts `puts` pages; after each one all of the last 200 are probed, for the longest lease there is.
struct Flood {
  explicit Flood(int puts) : f(kPages * kPage) {
    for (int n = 0; n < puts; ++n) {
      f.now += 1000;
      const std::uint64_t evicted = f.store->stats().evicted;
      const WriteResult result = f.begin(flood_key(n), kPage);
      REQUIRE(result.start == WriteStart::reserved);
      evicted_at_once = std::max(evicted_at_once, f.store->stats().evicted - evicted);
      f.store->publish(result.reservation, f.fill(result.reservation, 1), 1, f.now);
      for (int probed = std::max(0, n - 200); probed <= n; ++probed) {
        hits += f.store->exists(flood_key(probed), 60 * kSecond, f.now) > 0 ? 1u : 0u;
      }
      f.store->do_work(f.now);
    }
  }
  StoreFixture f;
  std::uint64_t evicted_at_once = 0;
  std::uint64_t hits = 0;
};

}  // namespace

TEST_CASE("a flood of probes does not starve eviction, and every loss is counted") {
  Flood flood(1000);
  const StoreStats stats = flood.f.store->stats();
  CHECK(flood.hits > 1000 * kPages / 2);  // nearly everything was under a lease, always
  CHECK(stats.space_waits == 0);
  CHECK(flood.evicted_at_once == 1);  // no scan: who leaves is found at once
  CHECK(stats.objects == kPages);
  const auto lost = [&](LeaseLoss cause) {
    return stats.lost_in_lease[static_cast<std::size_t>(cause)];
  };
  CHECK(lost(LeaseLoss::lease_budget) == stats.evicted);
  CHECK(lost(LeaseLoss::removed) == 0);
  CHECK(lost(LeaseLoss::replaced) == 0);
}

}  // namespace simm::store::testing
