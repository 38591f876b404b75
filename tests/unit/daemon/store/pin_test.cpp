// Objects that somebody pinned: what keeps them, how much of it, and what ends it.
#include <string>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

constexpr std::uint64_t kPinPage = 1024;

// An arena of 40 pages, of which four may be pinned.
struct PinnedStore : StoreFixture {
  explicit PinnedStore(const StoreConfig& config = quiet()) : StoreFixture(40 * kPinPage, config) {}

  static OwnedKey page(int number, std::uint64_t tenant = 1) {
    return OwnedKey("page" + std::to_string(number), tenant);
  }
  // Puts pages, one second apart each, until all that may go has gone several times.
  void churn(std::uint64_t tenant = 1) {
    for (int n = 1000; n < 1200; ++n) {
      now += kSecond;
      REQUIRE(put(page(n, tenant), kPinPage));
      store->do_work(now);
    }
  }
  Status pin(const ObjectKey& key) { return store->pin(key, now); }
  Status unpin(const ObjectKey& key) { return store->unpin(key, now); }
};

}  // namespace

TEST_CASE("a pinned object stays, without a lease and for as long as it likes") {
  PinnedStore f;
  REQUIRE(f.put(f.page(0), kPinPage));
  REQUIRE(f.put(f.page(1), kPinPage));
  CHECK(f.pin(f.page(0)) == Status::ok);
  CHECK(f.pin(f.page(0)) == Status::ok);  // again is no second pin
  CHECK(f.store->stats().pinned_bytes == kPinPage);
  CHECK(f.store->stats().pinned_groups == 1);
  f.churn();
  f.now += GroupBook::kProtectedNs;
  f.churn(2);
  CHECK(f.has(f.page(0)));
  CHECK_FALSE(f.has(f.page(1)));
  CHECK(f.unpin(f.page(0)) == Status::ok);
  CHECK(f.unpin(f.page(0)) == Status::ok);
  CHECK(f.store->stats().pinned_bytes == 0);
  f.churn();
  CHECK_FALSE(f.has(f.page(0)));
  CHECK(f.pin(f.page(0)) == Status::not_found);
  CHECK(f.unpin(f.page(0)) == Status::not_found);
}

TEST_CASE("pins have a budget: a tenth of the tenant's share, beyond which the next is refused") {
  PinnedStore f;
  for (int n = 0; n < 5; ++n) REQUIRE(f.put(f.page(n), kPinPage));
  for (int n = 0; n < 4; ++n) CHECK(f.pin(f.page(n)) == Status::ok);
  CHECK(f.pin(f.page(4)) == Status::no_space);
  CHECK(f.store->stats().pins_refused == 1);
  CHECK(f.unpin(f.page(0)) == Status::ok);
  CHECK(f.pin(f.page(4)) == Status::ok);
  SUBCASE("another tenant has none left, though it has a share") {
    REQUIRE(f.put(f.page(0, 2), kPinPage));
    CHECK(f.pin(f.page(0, 2)) == Status::no_space);
    CHECK(f.unpin(f.page(1)) == Status::ok);
    CHECK(f.pin(f.page(0, 2)) == Status::ok);
    CHECK(f.pin(f.page(1)) == Status::no_space);
  }
  SUBCASE("nor is there any when it is configured away") {
    StoreConfig config = StoreFixture::quiet();
    config.pin_budget_percent = 0;
    PinnedStore none(config);
    REQUIRE(none.put(none.page(0), kPinPage));
    CHECK(none.pin(none.page(0)) == Status::no_space);
  }
}

TEST_CASE("a flood of pins starves nobody: puts go on, and what is pinned stays") {
  PinnedStore f;
  for (int n = 0; n < 400; ++n) {
    f.now += kSecond;
    REQUIRE(f.put(f.page(n), kPinPage));
    const Status pinned = f.pin(f.page(n));
    CHECK(pinned == (n < 4 ? Status::ok : Status::no_space));
    CHECK(f.store->exists(f.page(n), 60 * kSecond, f.now) == kPinPage);
  }
  for (int n = 0; n < 4; ++n) CHECK(f.has(f.page(n)));
  CHECK(f.store->stats().space_waits == 0);
}

TEST_CASE("a group is pinned as a whole, and those who join it until the budget is used up") {
  PinnedStore f;
  const auto part = [](int number) {
    return OwnedKey("part" + std::to_string(number), 1, 1, "group");
  };
  REQUIRE(f.put(part(0), kPinPage));
  CHECK(f.pin(part(0)) == Status::ok);
  for (int n = 1; n < 4; ++n) REQUIRE(f.put(part(n), kPinPage));
  CHECK(f.store->stats().pinned_bytes == 4 * kPinPage);
  // A replacement by one of the same length uses up nothing, though for a moment there are two.
  REQUIRE(f.put(part(1), kPinPage, 2, ipc::PutMode::replace));
  CHECK(f.store->stats().pinned_bytes == 4 * kPinPage);
  f.churn();
  CHECK(f.has(part(0)));
  CHECK(f.byte_of(part(1)) == 2);
  CHECK(f.store->stats().pins_outgrown == 0);
  REQUIRE(f.put(part(4), kPinPage));
  CHECK(f.store->stats().pins_outgrown == 1);
  CHECK(f.store->stats().pinned_bytes == 0);
  f.churn();
  CHECK_FALSE(f.has(part(0)));
}

TEST_CASE("a pin ends with the last object of its group, whatever ended that") {
  PinnedStore f;
  f.store->do_work(f.now);
  REQUIRE(f.put(f.page(0), kPinPage, 1, ipc::PutMode::if_absent, 5 * kSecond));
  CHECK(f.pin(f.page(0)) == Status::ok);
  SUBCASE("its TTL") {
    f.now += 6 * kSecond;
    f.store->do_work(f.now);
  }
  SUBCASE("a removal") {
    CHECK(f.store->remove(f.page(0), f.now));
  }
  CHECK(f.store->stats().pinned_bytes == 0);
  CHECK(f.store->stats().pinned_groups == 0);
  REQUIRE(f.put(f.page(0), kPinPage));
  f.churn();
  CHECK_FALSE(f.has(f.page(0)));
}

TEST_CASE("a lease goes on beside a pin and behind it") {
  PinnedStore f;
  REQUIRE(f.put(f.page(0), kPinPage));
  SUBCASE("granted before") {
    CHECK(f.store->exists(f.page(0), 60 * kSecond, f.now) > 0);
    CHECK(f.pin(f.page(0)) == Status::ok);
  }
  SUBCASE("granted meanwhile") {
    CHECK(f.pin(f.page(0)) == Status::ok);
    CHECK(f.store->exists(f.page(0), 60 * kSecond, f.now) > 0);
  }
  CHECK(f.store->stats().leased_bytes == 0);  // counted once: as a pin
  f.now += 10 * kSecond;
  CHECK(f.unpin(f.page(0)) == Status::ok);
  CHECK(f.store->stats().leased_bytes == kPinPage);
  for (int n = 1; n < 100; ++n) REQUIRE(f.put(f.page(n), kPinPage));
  CHECK(f.has(f.page(0)));
  f.now += 51 * kSecond;
  f.store->do_work(f.now);
  CHECK(f.store->stats().leased_bytes == 0);
  f.churn();
  CHECK_FALSE(f.has(f.page(0)));
}

}  // namespace simm::store::testing
