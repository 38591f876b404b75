// Several tenants in one full store: who gives way to whom.
#include <algorithm>
#include <string>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

constexpr std::uint64_t kSharePage = 1024;

// Tenants put and probe numbered pages, in an arena of 64 of them.
struct SharedStore {
  explicit SharedStore(StoreConfig config = StoreFixture::quiet()) : f(64 * kSharePage, config) {}

  static OwnedKey page(std::uint64_t tenant, int number) {
    return OwnedKey("page" + std::to_string(number), tenant);
  }
  bool put(std::uint64_t tenant, int number) {
    f.now += 1000;
    return f.put(page(tenant, number), kSharePage);
  }
  bool lease(std::uint64_t tenant, int number) {
    f.now += 1000;
    return f.store->exists(page(tenant, number), 60 * kSecond, f.now) > 0;
  }
  int held(std::uint64_t tenant, int end = 1000) {
    int count = 0;
    for (int n = 0; n < end; ++n) count += f.has(page(tenant, n)) ? 1 : 0;
    return count;
  }
  std::uint64_t lost_leases() const {
    return f.store->stats().lost_in_lease[static_cast<std::size_t>(LeaseLoss::lease_budget)];
  }
  // Puts and leases whatever is there, again and again.
  void flood(std::uint64_t tenant, int first, int count) {
    for (int n = first; n < first + count; ++n) {
      put(tenant, n);
      for (int probed = std::max(0, n - 80); probed <= n; ++probed) lease(tenant, probed);
      f.store->do_work(f.now);
    }
  }

  StoreFixture f;
};

StoreConfig weighed(std::uint32_t first, std::uint32_t second) {
  StoreConfig config = StoreFixture::quiet();
  config.quotas = {{{1}, 0, first}, {{2}, 0, second}};
  return config;
}

}  // namespace

TEST_CASE("who is alone has everything; who comes takes his share from who has more") {
  SharedStore s;
  for (int n = 0; n < 100; ++n) REQUIRE(s.put(1, n));
  CHECK(s.held(1) == 64);
  for (int n = 0; n < 100; ++n) REQUIRE(s.put(2, n));
  CHECK(s.held(2) == 32);
  CHECK(s.held(1) == 32);
  for (int n = 0; n < 100; ++n) REQUIRE(s.put(3, n));
  CHECK(s.held(1) + s.held(2) + s.held(3) == 64);
  for (std::uint64_t tenant = 1; tenant <= 3; ++tenant) {
    CHECK(s.held(tenant) >= 21);
    CHECK(s.held(tenant) <= 22);
  }
}

TEST_CASE("who takes less than his share keeps it, whatever the others put") {
  SharedStore s;
  for (int n = 0; n < 20; ++n) REQUIRE(s.put(1, n));
  for (int n = 0; n < 500; ++n) REQUIRE(s.put(2, n));
  CHECK(s.held(1) == 20);
  CHECK(s.held(2) == 44);
  for (int n = 0; n < 500; ++n) {
    REQUIRE(s.put(2, 500 + n));
    REQUIRE(s.put(3, n));
  }
  CHECK(s.held(1) == 20);
  CHECK(s.held(2) == 22);
  CHECK(s.held(3) == 22);
}

TEST_CASE("shares go by weight") {
  SharedStore s(weighed(3, 1));
  for (int n = 0; n < 200; ++n) {
    REQUIRE(s.put(1, n));
    REQUIRE(s.put(2, n));
  }
  CHECK(s.held(1) == 48);
  CHECK(s.held(2) == 16);
  StoreConfig wrong = weighed(0, 1);
  std::vector<std::byte> arena(4096);
  CHECK_FALSE(Store::create(wrong, arena).has_value());
  wrong = weighed(1, kWeightMax + 1);
  CHECK_FALSE(Store::create(wrong, arena).has_value());
}

TEST_CASE("what a tenant has not used for ten minutes is not kept from the others") {
  SharedStore s;
  for (int n = 0; n < 32; ++n) REQUIRE(s.put(1, n));
  s.f.now += GroupBook::kProtectedNs - 100 * kSecond;
  for (int n = 0; n < 200; ++n) REQUIRE(s.put(2, n));
  CHECK(s.held(1) == 32);
  s.f.now += 100 * kSecond;
  for (int n = 200; n < 400; ++n) REQUIRE(s.put(2, n));
  CHECK(s.held(1) == 0);
  CHECK(s.held(2) == 64);
}

TEST_CASE("who floods the records of a store with small objects takes them from nobody") {
  SharedStore s(StoreFixture::quiet(40));
  for (int n = 0; n < 15; ++n) REQUIRE(s.put(1, n));
  for (int n = 0; n < 200; ++n) {
    s.f.now += 1000;
    REQUIRE(s.f.put(s.page(2, n), 64));
  }
  CHECK(s.held(1) == 15);
  CHECK(s.held(2) == 25);
  SUBCASE("not with leases either") {
    for (int n = 0; n < 200; ++n) s.lease(2, n);
    for (int n = 15; n < 30; ++n) REQUIRE(s.put(1, n));
    CHECK(s.held(1) == 20);
    CHECK(s.held(2) == 20);
  }
}

TEST_CASE("a flood of leases of one tenant breaks no lease of another one, and takes no room") {
  SharedStore s;
  for (int n = 0; n < 30; ++n) REQUIRE(s.put(1, n));
  for (int n = 0; n < 16; ++n) REQUIRE(s.lease(1, n));  // half of the share of two tenants
  s.flood(2, 0, 300);
  for (int n = 0; n < 16; ++n) CHECK(s.f.has(s.page(1, n)));
  CHECK(s.held(1) == 30);
  CHECK(s.held(2) == 34);
  const std::uint64_t lost = s.lost_leases();
  CHECK(lost > 100);  // the flood's own
  // And the other one still gets what is his, at once.
  for (int n = 30; n < 60; ++n) {
    const std::uint64_t evicted = s.f.store->stats().evicted;
    REQUIRE(s.put(1, n));
    CHECK(s.f.store->stats().evicted - evicted == 1);
  }
  CHECK(s.f.store->stats().space_waits == 0);
  CHECK(s.held(1) == 32);
  CHECK(s.lost_leases() == lost + 2);
  for (int n = 0; n < 16; ++n) CHECK(s.f.has(s.page(1, n)));
}

TEST_CASE("who has leased beyond his budget gives way with his own leases before others' objects") {
  SharedStore s;
  for (int n = 0; n < 54; ++n) REQUIRE(s.put(1, n));
  for (int n = 0; n < 54; ++n) REQUIRE(s.lease(1, n));
  for (int n = 0; n < 10; ++n) REQUIRE(s.put(2, n));
  CHECK(s.lost_leases() == 0);
  for (int n = 54; n < 60; ++n) REQUIRE(s.put(1, n));
  CHECK(s.held(2) == 10);
  // Each broke a lease, and none the one before it, which had none.
  CHECK(s.lost_leases() == 6);
  for (int n = 54; n < 60; ++n) CHECK(s.f.has(s.page(1, n)));
}

TEST_CASE("room in stock is not made at the cost of who is within his share") {
  StoreConfig config;
  config.free_low_permille = 100;
  config.free_high_permille = 200;
  SharedStore s(config);
  for (int n = 0; n < 10; ++n) REQUIRE(s.put(1, n));
  for (int n = 0; n < 54; ++n) REQUIRE(s.put(2, n));
  SUBCASE("who has most makes it") {
    for (int turn = 0; turn < 50; ++turn) s.f.store->do_work(s.f.now);
    CHECK(s.f.store->stats().free_bytes >= 64 * kSharePage / 5);
    CHECK(s.held(2) < 45);
  }
  SUBCASE("also when all of that is leased") {
    for (int n = 0; n < 54; ++n) REQUIRE(s.lease(2, n));
    for (int turn = 0; turn < 50; ++turn) s.f.store->do_work(s.f.now);
    CHECK(s.held(2) == 54);
  }
  CHECK(s.held(1) == 10);
}

TEST_CASE("an account that another tenant gets begins with nothing learned") {
  StoreConfig config = StoreFixture::quiet();
  config.tenants_max = 1;
  StoreFixture f(8 * 64, config);
  for (std::uint64_t tenant = 1; tenant <= 3; ++tenant) {
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 8; ++i) {
        f.now += kSecond;
        REQUIRE(f.put(OwnedKey("k" + std::to_string(i), tenant), 64));
      }
    }
    f.now += kSecond;
    REQUIRE(f.put(OwnedKey("one more", tenant), 64));
    CHECK_FALSE(f.has(OwnedKey("k0", tenant)));
    for (int i = 1; i < 8; ++i) {
      CHECK(f.store->remove(OwnedKey("k" + std::to_string(i), tenant), f.now));
    }
    CHECK(f.store->remove(OwnedKey("one more", tenant), f.now));
    f.audit();
  }
}

}  // namespace simm::store::testing
