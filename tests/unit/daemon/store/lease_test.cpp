// Leases, groups, quotas and TTL: who may leave, and when.
#include <string>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

std::uint64_t losses(const StoreFixture& f, LeaseLoss cause) {
  return f.store->stats().lost_in_lease[static_cast<std::size_t>(cause)];
}

OwnedKey nth(int n, std::uint64_t tenant = 1) {
  return OwnedKey("n" + std::to_string(n), tenant);
}

}  // namespace

TEST_CASE("the least recently used object leaves first") {
  StoreFixture f(4 * 1024);
  for (int i = 0; i < 4; ++i) REQUIRE(f.put(nth(i), 1024));
  f.store->touch(nth(0), kNoLease, f.now);
  REQUIRE(f.put(nth(4), 1024));
  CHECK(f.has(nth(0)));
  CHECK_FALSE(f.has(nth(1)));
  CHECK(f.has(nth(2)));
}

TEST_CASE("a put that meets its object makes it young") {
  StoreFixture f(2 * 1024);
  REQUIRE(f.put(nth(0), 1024));
  REQUIRE(f.put(nth(1), 1024));
  CHECK(f.begin(nth(0), 1024).start == WriteStart::already_present);
  REQUIRE(f.put(nth(2), 1024));
  CHECK(f.has(nth(0)));
  CHECK_FALSE(f.has(nth(1)));
}

TEST_CASE("a group leaves as a whole and is leased as a whole") {
  StoreFixture f(8 * 1024);
  const OwnedKey k("p_k", 1, 1, "p");
  const OwnedKey v("p_v", 1, 1, "p");
  REQUIRE(f.put(k, 1024));
  REQUIRE(f.put(nth(1), 1024));
  REQUIRE(f.put(v, 1024));
  CHECK(f.store->stats().groups == 2);
  SUBCASE("leased by one member, both stay") {
    CHECK(f.store->exists(v, 0, f.now) == 1024);
    for (int i = 2; i < 20; ++i) REQUIRE(f.put(nth(i), 1024));
    CHECK(f.has(k));
    CHECK(f.has(v));
    CHECK_FALSE(f.has(nth(1)));
  }
  SUBCASE("evicted for one member, both go") {
    f.store->touch(nth(1), kNoLease, f.now);
    REQUIRE(f.put(nth(2), 6 * 1024));
    CHECK_FALSE(f.has(k));
    CHECK_FALSE(f.has(v));
    CHECK(f.has(nth(1)));
  }
}

TEST_CASE("a lease holds for its time and not longer") {
  for (const base::TimeNs lease : {base::TimeNs{0}, 5 * kSecond, 59 * kSecond}) {
    StoreFixture f(2 * 1024);
    f.store->do_work(f.now);
    REQUIRE(f.put(nth(0), 1024));
    CHECK(f.store->exists(nth(0), lease, f.now) == 1024);
    const base::TimeNs end = f.now + (lease == 0 ? 15 * kSecond : lease);
    f.now = end - 1;
    f.store->do_work(f.now);
    CHECK(f.begin(nth(1), 2048).start == WriteStart::wait);
    CHECK(f.has(nth(0)));
    f.now = end + kSecond;
    f.store->do_work(f.now);
    CHECK(f.put(nth(1), 2048));
    CHECK_FALSE(f.has(nth(0)));
    CHECK(losses(f, LeaseLoss::lease_budget) == 0);
  }
}

TEST_CASE("a lease is at most a minute, whatever was asked for") {
  StoreFixture f(1024);
  REQUIRE(f.put(nth(0), 512));
  CHECK(f.store->exists(nth(0), 3600 * kSecond, f.now) == 512);
  f.now += 61 * kSecond;
  f.store->do_work(f.now);
  CHECK(f.put(nth(1), 1024));
}

TEST_CASE("a get renews a lease, and a shorter one does not cut it") {
  StoreFixture f(1024);
  REQUIRE(f.put(nth(0), 512));
  ReadPin pin;
  REQUIRE(f.store->begin_read(nth(0), 0, f.now, pin) == Status::ok);
  f.store->end_read(pin);
  f.now += 10 * kSecond;
  REQUIRE(f.store->begin_read(nth(0), 0, f.now, pin) == Status::ok);
  f.store->end_read(pin);
  CHECK(f.store->exists(nth(0), kSecond, f.now) == 512);
  f.now += 14 * kSecond;
  f.store->do_work(f.now);
  CHECK(f.begin(nth(1), 1024).start == WriteStart::wait);
  f.now += 2 * kSecond;
  f.store->do_work(f.now);
  CHECK(f.put(nth(1), 1024));
}

TEST_CASE("when leases hold more than their budget the oldest gives way, and is counted") {
  StoreFixture f(8 * 1024);
  for (int i = 0; i < 8; ++i) REQUIRE(f.put(nth(i), 1024));
  for (const int i : {3, 0, 1, 2, 4, 5}) {  // 6 of 8 KiB, budget 4
    CHECK(f.store->exists(nth(i), 60 * kSecond, f.now) == 1024);
    f.now += kSecond;
  }
  REQUIRE(f.put(nth(10), 1024));  // takes 6, unleased
  REQUIRE(f.put(nth(11), 1024));  // takes 7
  CHECK(losses(f, LeaseLoss::lease_budget) == 0);
  f.store->touch(nth(10), 0, f.now);
  f.store->touch(nth(11), 0, f.now);
  REQUIRE(f.put(nth(12), 1024));
  CHECK_FALSE(f.has(nth(3)));
  CHECK(losses(f, LeaseLoss::lease_budget) == 1);
  f.store->touch(nth(12), 0, f.now);
  REQUIRE(f.put(nth(13), 1024));
  CHECK_FALSE(f.has(nth(0)));
  CHECK(losses(f, LeaseLoss::lease_budget) == 2);
}

TEST_CASE("what is put while leases hold all is there, at the cost of the oldest lease") {
  for (const bool in_background : {false, true}) {
    StoreConfig config = StoreFixture::quiet();
    if (in_background) config.free_low_permille = config.free_high_permille = 20;
    StoreFixture f(64 * 1024, config);
    for (int i = 0; i < 64; ++i) {
      REQUIRE(f.put(nth(i), 1024));
      f.now += 2 * base::kNsPerSecond / 10;
      f.store->touch(nth(i), 60 * kSecond, f.now);  // as a get does
    }
    for (int i = 100; i < 120; ++i) {
      f.now += base::kNsPerSecond / 10;
      REQUIRE(f.put(nth(i), 1024));
      f.store->do_work(f.now);
      CHECK(f.has(nth(i)));
    }
    for (int i = 100; i < 120; ++i) CHECK(f.has(nth(i)));
    for (int i = 40; i < 64; ++i) CHECK(f.has(nth(i)));
    CHECK(losses(f, LeaseLoss::lease_budget) >= 19);
    // Leases within the budget are safe from then on: puts cost what was put.
    for (int i = 200; i < 400; ++i) {
      f.now += base::kNsPerSecond / 100;
      REQUIRE(f.put(nth(i), 1024));
      f.store->do_work(f.now);
      CHECK(f.has(nth(i)));
    }
    CHECK(f.store->stats().leased_bytes == 32 * 1024);
    CHECK(f.has(nth(63)));
    CHECK(f.has(nth(33)));
  }
}

TEST_CASE("a lease of a probe gives way before any of a get, until the object is got") {
  StoreFixture f(8 * 1024);
  for (int i = 0; i < 8; ++i) REQUIRE(f.put(nth(i), 1024));
  for (const int i : {0, 1, 2, 3}) {
    f.now += kSecond;
    f.store->touch(nth(i), 60 * kSecond, f.now);  // as a get does
  }
  for (const int i : {4, 5, 6, 7}) {
    f.now += kSecond;
    CHECK(f.store->exists(nth(i), 60 * kSecond, f.now) == 1024);
  }
  f.store->touch(nth(4), 60 * kSecond, f.now);
  REQUIRE(f.put(nth(10), 3 * 1024));
  for (const int i : {0, 1, 2, 3, 4}) CHECK(f.has(nth(i)));
  for (const int i : {5, 6, 7}) CHECK_FALSE(f.has(nth(i)));
  CHECK(losses(f, LeaseLoss::lease_budget) == 3);
}

TEST_CASE("leases within their budget never give way") {
  StoreFixture f(8 * 1024);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(f.put(nth(i), 1024));
    f.store->touch(nth(i), 0, f.now);
  }
  for (int i = 10; i < 40; ++i) REQUIRE(f.put(nth(i), 1024));
  CHECK(f.begin(nth(9), 5 * 1024).start == WriteStart::wait);
  for (int i = 0; i < 4; ++i) CHECK(f.has(nth(i)));
  CHECK(f.store->stats().leased_bytes == 4 * 1024);
  CHECK(f.store->stats().evicted_for_quota == 0);
}

TEST_CASE("a removal inside a lease is a counted loss") {
  StoreFixture f;
  REQUIRE(f.put(nth(0), 1024));
  f.store->touch(nth(0), 0, f.now);
  CHECK(f.store->remove(nth(0), f.now));
  CHECK_FALSE(f.store->remove(nth(0), f.now));
  CHECK(losses(f, LeaseLoss::removed) == 1);
  REQUIRE(f.put(nth(0), 1024));
  CHECK(f.store->remove(nth(0), f.now));
  CHECK(losses(f, LeaseLoss::removed) == 1);
}

TEST_CASE("a replacement that finds no room costs the old object, leased or not") {
  StoreConfig config = StoreFixture::quiet();
  config.lease_budget_percent = 100;  // the budget is never exhausted here
  StoreFixture f(1024, config);
  REQUIRE(f.put(nth(0), 1024, 1));
  ReadPin pin;
  REQUIRE(f.store->begin_read(nth(0), 0, f.now, pin) == Status::ok);
  CHECK(f.begin(nth(0), 1024, ipc::PutMode::replace).start == WriteStart::wait);
  CHECK(f.byte_of(nth(0)) == 1);
  f.store->end_read(pin);
  CHECK(f.begin(nth(1), 1024).start == WriteStart::wait);
  REQUIRE(f.put(nth(0), 1000, 2, ipc::PutMode::replace));
  CHECK(f.byte_of(nth(0)) == 2);
  CHECK(losses(f, LeaseLoss::replaced) == 1);
}

TEST_CASE("an object is gone when its TTL is over, leased or not, and is no loss") {
  StoreFixture f;
  f.store->do_work(f.now);
  REQUIRE(f.put(nth(0), 1024, 1, ipc::PutMode::if_absent, 5 * kSecond));
  REQUIRE(f.put(nth(1), 1024, 1, ipc::PutMode::if_absent, 3000 * kSecond));
  f.store->touch(nth(0), 0, f.now);
  f.now += 5 * kSecond - 1;
  CHECK(f.has(nth(0)));
  f.now += 1;
  SUBCASE("seen by a get") {
    CHECK_FALSE(f.has(nth(0)));
  }
  SUBCASE("seen by a put") {
    CHECK(f.begin(nth(0), 64).start == WriteStart::reserved);
  }
  SUBCASE("found by the wheel") {
    f.now += kSecond;
    f.store->do_work(f.now);
  }
  CHECK(f.store->stats().expired == 1);
  CHECK(f.store->stats().objects == 1);
  CHECK(losses(f, LeaseLoss::removed) == 0);
  f.now += 2000 * kSecond;
  f.store->do_work(f.now);
  CHECK(f.has(nth(1)));
  f.now += 1000 * kSecond;
  f.store->do_work(f.now);
  CHECK(f.store->stats().objects == 0);
}

TEST_CASE("a replacement has a TTL of its own") {
  StoreFixture f;
  REQUIRE(f.put(nth(0), 64, 1, ipc::PutMode::if_absent, kSecond));
  REQUIRE(f.put(nth(0), 64, 2, ipc::PutMode::replace));
  f.now += 10 * kSecond;
  f.store->do_work(f.now);
  CHECK(f.byte_of(nth(0)) == 2);
}

TEST_CASE("a tenant over its quota evicts its own, and nobody else's") {
  StoreConfig config = StoreFixture::quiet();
  config.quotas = {{{1}, 2048}};
  StoreFixture f(8 * 1024, config);
  for (int i = 0; i < 4; ++i) REQUIRE(f.put(nth(i, 2), 1024));
  for (int i = 0; i < 6; ++i) {
    REQUIRE(f.put(nth(i, 1), 1024));
    f.audit();
  }
  for (int i = 0; i < 4; ++i) CHECK(f.has(nth(i, 2)));
  CHECK_FALSE(f.has(nth(3, 1)));
  CHECK(f.has(nth(4, 1)));
  CHECK(f.has(nth(5, 1)));
  CHECK(f.store->stats().evicted_for_quota == 4);
  CHECK(f.begin(nth(9, 1), 2049).start == WriteStart::no_space);
}

TEST_CASE("leases may hold half of a quota, then the oldest gives way") {
  StoreConfig config = StoreFixture::quiet();
  config.quotas = {{{1}, 4096}};
  StoreFixture f(64 * 1024, config);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(f.put(nth(i), 1024));
    f.store->touch(nth(i), 0, f.now);
  }
  REQUIRE(f.put(nth(4), 1024));
  CHECK_FALSE(f.has(nth(0)));
  CHECK(f.has(nth(1)));
  CHECK(losses(f, LeaseLoss::lease_budget) == 1);
}

TEST_CASE("leases within half of a quota never give way") {
  StoreConfig config = StoreFixture::quiet();
  config.quotas = {{{1}, 4096}};
  StoreFixture f(64 * 1024, config);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(f.put(nth(i), 1024));
    f.store->touch(nth(i), 0, f.now);
  }
  CHECK(f.begin(nth(4), 3 * 1024).start == WriteStart::wait);
  CHECK(f.has(nth(0)));
  CHECK(f.has(nth(1)));
  CHECK(f.put(nth(5), 2 * 1024));
}

TEST_CASE("tenants beyond tenants_max are refused until one is empty") {
  StoreConfig config = StoreFixture::quiet();
  config.tenants_max = 2;
  StoreFixture f(8 * 1024, config);
  REQUIRE(f.put(nth(0, 1), 64));
  REQUIRE(f.put(nth(0, 2), 64));
  CHECK(f.begin(nth(0, 3), 64).start == WriteStart::too_many_tenants);
  CHECK(f.store->stats().refused_tenants == 1);
  CHECK(f.store->remove(nth(0, 1), f.now));
  CHECK(f.put(nth(0, 3), 64));
}

TEST_CASE("background eviction keeps a stock of free bytes, a little in each turn") {
  StoreConfig config;
  config.free_low_permille = 250;
  config.free_high_permille = 500;
  StoreFixture f(64 * 1024, config);
  for (int i = 0; i < 64; ++i) REQUIRE(f.put(nth(i), 1024));
  CHECK(f.store->stats().free_bytes == 0);
  const int first = f.store->do_work(f.now);
  CHECK(first > 0);
  CHECK(f.store->stats().free_bytes < 32 * 1024);
  for (int turn = 0; turn < 100; ++turn) f.store->do_work(f.now);
  CHECK(f.store->stats().free_bytes == 32 * 1024);
  CHECK_FALSE(f.has(nth(0)));
  CHECK(f.has(nth(63)));
}

TEST_CASE("background eviction leaves leases alone") {
  StoreConfig config;
  config.free_low_permille = 900;
  config.free_high_permille = 1000;
  StoreFixture f(4 * 1024, config);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(f.put(nth(i), 1024));
    f.store->touch(nth(i), 0, f.now);
  }
  f.store->do_work(f.now);  // the wheels catch up with the clock
  for (int turn = 0; turn < 100; ++turn) CHECK(f.store->do_work(f.now) == 0);
  for (int i = 0; i < 4; ++i) CHECK(f.has(nth(i)));
}

TEST_CASE("a group larger than a turn's work leaves over several") {
  StoreConfig config;
  config.free_low_permille = 999;
  config.free_high_permille = 1000;
  StoreFixture f(64 * 1024, config);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(f.put(OwnedKey("m" + std::to_string(i), 1, 1, "one"), 64));
  }
  CHECK(f.store->stats().groups == 1);
  CHECK(f.store->do_work(f.now) <= 16);
  CHECK(f.store->stats().objects >= 84);
  for (int turn = 0; turn < 10; ++turn) f.store->do_work(f.now);
  CHECK(f.store->stats().objects == 0);
  CHECK(f.store->stats().groups == 0);
}

}  // namespace simm::store::testing
