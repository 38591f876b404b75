#include "daemon/store/eviction/store_spectrum.h"

#include <numeric>
#include <string>
#include <utility>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

TEST_CASE("a class has its upper end, and the last one everything above") {
  CHECK(StoreSpectrum::length_class(1) == 0);
  CHECK(StoreSpectrum::length_class(1024) == 0);
  CHECK(StoreSpectrum::length_class(1025) == 1);
  CHECK(std::string(kLengthClasses[StoreSpectrum::length_class(4'500'000)]) == "16MiB");
  CHECK(std::string(kLengthClasses[StoreSpectrum::length_class(ipc::kValueBytesMax)]) == "1GiB");
  CHECK(std::string(kAgeClasses[StoreSpectrum::age_class(kSecond)]) == "1s");
  CHECK(std::string(kAgeClasses[StoreSpectrum::age_class(kSecond + 1)]) == "10s");
  CHECK(std::string(kAgeClasses[StoreSpectrum::age_class(~base::TimeNs{0})]) == "more");
  CHECK(std::string(kUseClasses[StoreSpectrum::use_class(0)]) == "1");
  CHECK(std::string(kUseClasses[StoreSpectrum::use_class(3)]) == "4");
  CHECK(std::string(kUseClasses[StoreSpectrum::use_class(255)]) == "more");
}

TEST_CASE("what is there is counted by length, whichever way it goes") {
  StoreFixture f;
  const auto in_class = [&](std::uint64_t bytes) {
    const StoreSpectrum spectrum = f.store->stats().spectrum;
    const std::size_t at = StoreSpectrum::length_class(bytes);
    return std::make_pair(spectrum.objects[at], spectrum.bytes[at]);
  };
  REQUIRE(f.put(OwnedKey("a"), 1000));
  REQUIRE(f.put(OwnedKey("b"), 1024));
  REQUIRE(f.put(OwnedKey("c"), 5000, 1, ipc::PutMode::replace));
  CHECK(in_class(1000) == std::make_pair(std::uint64_t{2}, std::uint64_t{2024}));
  CHECK(in_class(5000) == std::make_pair(std::uint64_t{1}, std::uint64_t{5000}));
  REQUIRE(f.put(OwnedKey("c"), 3000, 1, ipc::PutMode::replace));
  CHECK(in_class(5000).first == 0);
  CHECK(in_class(3000) == std::make_pair(std::uint64_t{1}, std::uint64_t{3000}));
  CHECK(f.store->remove(OwnedKey("a"), f.now));
  CHECK(in_class(1000) == std::make_pair(std::uint64_t{1}, std::uint64_t{1024}));
}

TEST_CASE("an eviction is counted once, by the age of its group and by its uses") {
  StoreConfig config = StoreFixture::quiet();
  config.eviction = EvictionKind::lru;
  StoreFixture f(4096, config);
  REQUIRE(f.put(OwnedKey("old"), 2048));
  for (int use = 0; use < 2; ++use) {
    f.now += 20 * kSecond;
    f.store->touch(OwnedKey("old"), kNoLease, f.now);
  }
  f.now += 50 * kSecond;
  REQUIRE(f.put(OwnedKey("new"), 4096));
  const StoreStats stats = f.store->stats();
  CHECK(stats.evicted == 1);
  CHECK(stats.spectrum.evicted_by_age[StoreSpectrum::age_class(50 * kSecond)] == 1);
  CHECK(stats.spectrum.evicted_by_uses[StoreSpectrum::use_class(3)] == 1);
  const auto& ages = stats.spectrum.evicted_by_age;
  CHECK(std::accumulate(ages.begin(), ages.end(), std::uint64_t{0}) == 1);
}

TEST_CASE("holes are counted, and the largest is known") {
  StoreFixture f(64 * 1024);
  CHECK(f.store->stats().holes == 1);
  CHECK(f.store->stats().largest_hole_bytes == 64 * 1024);
  for (int i = 0; i < 16; ++i) REQUIRE(f.put(OwnedKey(std::to_string(i)), 4096));
  CHECK(f.store->stats().holes == 0);
  CHECK(f.store->stats().largest_hole_bytes == 0);
  for (const int gone : {1, 5, 6, 11})
    CHECK(f.store->remove(OwnedKey(std::to_string(gone)), f.now));
  CHECK(f.store->stats().holes == 3);
  CHECK(f.store->stats().largest_hole_bytes == 8192);
}

TEST_CASE(
    "a use is counted again by the time since the one before, and not within a second of it") {
  for (const EvictionKind kind : {EvictionKind::reuse, EvictionKind::lru}) {
    StoreConfig config = StoreFixture::quiet();
    config.eviction = kind;
    StoreFixture f(4096, config);
    ReuseAges expected{};
    const auto check = [&] { CHECK(f.store->stats().spectrum.reused_by_age == expected); };
    REQUIRE(f.put(OwnedKey("a"), 64));
    check();
    f.now += kSecond - 1;
    CHECK(f.store->exists(OwnedKey("a"), 0, f.now) == 64);
    check();
    for (const std::uint64_t age : {1u, 3u, 4u, 11u, 100u, 2999u, 20'000u}) {
      f.now += age * kSecond;
      REQUIRE(f.store->do_work(f.now) >= 0);
      CHECK(f.store->exists(OwnedKey("a"), 0, f.now) == 64);  // none
      f.store->touch(OwnedKey("a"), 0, f.now);
      f.store->touch(OwnedKey("a"), 0, f.now);  // the same use
      ++expected[StoreSpectrum::reuse_class(age * kSecond)];
      check();
    }
    CHECK(expected == ReuseAges{2, 1, 1, 1, 0, 0, 1, 0, 1});
  }
}

TEST_CASE("the classes of reuse have their names' ends") {
  CHECK(StoreSpectrum::reuse_class(3 * kSecond) == 0);
  CHECK(StoreSpectrum::reuse_class(3 * kSecond + 1) == 1);
  CHECK(std::string(kReuseClasses[StoreSpectrum::reuse_class(3000 * kSecond)]) == "3000s");
  CHECK(std::string(kReuseClasses[StoreSpectrum::reuse_class(10'000 * kSecond)]) == "10000s");
  CHECK(std::string(kReuseClasses[StoreSpectrum::reuse_class(10'001 * kSecond)]) == "more");
  CHECK(std::string(kReuseClasses[StoreSpectrum::reuse_class(~base::TimeNs{0})]) == "more");
}

TEST_CASE("what is read, written or only read any more may not move; all else may") {
  StoreFixture f;
  const auto movable = [&] { return f.store->stats().movable_bytes; };
  CHECK(movable() == 0);
  const WriteResult begun = f.begin(OwnedKey("a"), 1000);
  REQUIRE(begun.start == WriteStart::reserved);
  CHECK(movable() == 0);
  f.store->publish(begun.reservation, StoreFixture::fill(begun.reservation, 1), 1, f.now);
  REQUIRE(f.put(OwnedKey("b"), 64));
  CHECK(movable() == 1024 + 64);
  ReadPin first;
  ReadPin second;
  REQUIRE(f.store->begin_read(OwnedKey("a"), kNoLease, f.now, first) == Status::ok);
  REQUIRE(f.store->begin_read(OwnedKey("a"), kNoLease, f.now, second) == Status::ok);
  CHECK(movable() == 64);
  f.audit();
  f.store->end_read(first);
  CHECK(movable() == 64);
  CHECK(f.store->remove(OwnedKey("a"), f.now));
  CHECK(movable() == 64);
  f.audit();
  f.store->end_read(second);
  CHECK(movable() == 64);
  const WriteResult given_up = f.begin(OwnedKey("c"), 1000);
  REQUIRE(given_up.start == WriteStart::reserved);
  f.store->abandon(given_up.reservation);
  CHECK(movable() == 64);
  CHECK(f.store->stats().extent_bytes == 64);
}

}  // namespace simm::store::testing
