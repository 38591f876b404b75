// A long object comes among short ones that nobody uses any more: who lies together makes way.
#include <string>
#include <vector>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {
namespace {

constexpr std::uint64_t kUnit = 64;

// Objects of two units with holes of one behind each: no hole takes one of them, so nothing can be
// moved. They were put and used in an order that has nothing to do with where they lie.
struct Perforated : StoreFixture {
  explicit Perforated(int count, StoreConfig config = quiet())
      : StoreFixture(static_cast<std::uint64_t>(count) * 3 * kUnit, roomy(config)), objects(count) {
    for (int i = 0; i < count; ++i) {
      REQUIRE(put(name(i), 2 * kUnit, byte(i)));
      REQUIRE(put(OwnedKey("gap" + std::to_string(i)), kUnit));
    }
    for (int i = 0; i < count; ++i) {
      REQUIRE(store->remove(OwnedKey("gap" + std::to_string(i)), now));
      now += kSecond;
      store->touch(name(i * 37 % count), kNoLease, now);
    }
    now += 1000 * kSecond;
  }
  static StoreConfig roomy(StoreConfig config) {
    config.objects_max = 4096;
    return config;
  }
  static OwnedKey name(int i) { return OwnedKey("k" + std::to_string(i)); }
  static std::uint8_t byte(int i) { return static_cast<std::uint8_t>(i % 200); }
  int left() {
    int there = 0;
    for (int i = 0; i < objects; ++i) {
      const int found = byte_of(name(i));
      CHECK((found == -1 || found == byte(i)));
      there += found >= 0 ? 1 : 0;
    }
    return there;
  }
  // Asks until there is room, with turns in between; returns how often it had to wait.
  int put_in_turns(const OwnedKey& key, std::uint64_t length) {
    for (int turns = 0; turns < 200; ++turns) {
      if (put(key, length, 99)) return turns;
      audit();
      store->do_work(now);
    }
    return -1;
  }
  const std::byte* address_of(const OwnedKey& key) {
    ReadPin pin;
    REQUIRE(store->begin_read(key, kNoLease, now, pin) == Status::ok);
    store->end_read(pin);
    return pin.bytes.data();
  }

  const int objects;
};

TEST_CASE("for a long object neighbours go, no more of them than it needs") {
  for (const EvictionKind kind : all_eviction_kinds()) {
    StoreConfig config = StoreFixture::quiet();
    config.eviction = kind;
    Perforated f(100, config);
    REQUIRE(f.put(OwnedKey("long"), 30 * kUnit, 99));
    CHECK(f.store->stats().evicted <= 11);
    CHECK(f.store->stats().evicted >= 10);
    CHECK(f.left() == 100 - static_cast<int>(f.store->stats().evicted));
    CHECK(f.byte_of(OwnedKey("long")) == 99);
  }
}

TEST_CASE("long objects come to lie side by side") {
  Perforated f(100);
  for (const char* each : {"long0", "long1", "long2"}) REQUIRE(f.put(OwnedKey(each), 30 * kUnit));
  const std::byte* const first = f.address_of(OwnedKey("long0"));
  CHECK(f.address_of(OwnedKey("long1")) - first <= 33 * std::ptrdiff_t{kUnit});
  CHECK(f.address_of(OwnedKey("long2")) - first <= 66 * std::ptrdiff_t{kUnit});
  CHECK(f.address_of(OwnedKey("long2")) > f.address_of(OwnedKey("long1")));
  CHECK(f.store->stats().evicted <= 33);
}

TEST_CASE("who was used lately makes way for nobody while others are cold") {
  Perforated f(100);
  for (int i = 0; i < 100; i += 2) f.store->touch(f.name(i), kNoLease, f.now);
  f.now += 2 * kSecond;
  // Every second object is in the way of all windows: the cold ones go by the policy's order.
  REQUIRE(f.put_in_turns(OwnedKey("long"), 6 * kUnit) >= 0);
  for (int i = 0; i < 100; i += 2) {
    CAPTURE(i);
    const bool some_cold_left = f.left() > 50;
    if (some_cold_left) CHECK(f.has(f.name(i)));
  }
}

TEST_CASE("a tenant within its share makes way for nobody who holds more") {
  StoreFixture f(300 * kUnit);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t tenant = i % 10 == 0 ? 2 : 1;
    REQUIRE(f.put(OwnedKey("k" + std::to_string(i), tenant), 2 * kUnit));
    REQUIRE(f.put(OwnedKey("gap" + std::to_string(i)), kUnit));
  }
  for (int i = 0; i < 100; ++i) f.store->remove(OwnedKey("gap" + std::to_string(i)), f.now);
  f.now += 100 * kSecond;
  REQUIRE(f.put(OwnedKey("long"), 20 * kUnit));
  for (int i = 0; i < 100; i += 10) CHECK(f.has(OwnedKey("k" + std::to_string(i), 2)));
}

TEST_CASE("a large clearing takes several turns, and the put waits for it") {
  Perforated f(1000);
  const OwnedKey key("long");
  CHECK(f.begin(key, 900 * kUnit).start == WriteStart::wait);
  CHECK(f.store->stats().evicted <= 144);
  CHECK(f.store->stats().evicted >= 128);
  CHECK(f.left() == 1000 - static_cast<int>(f.store->stats().evicted));
  f.audit();
  const int turns = f.put_in_turns(key, 900 * kUnit);
  CHECK(turns >= 1);
  CHECK(turns <= 3);
  CHECK(f.store->stats().evicted <= 301);
  CHECK(f.store->stats().lingering == 0);
  CHECK(f.byte_of(key) == 99);
}

TEST_CASE("who is read or leased while the clearing goes on stays, and nothing is lost of it") {
  for (int used = 0; used < 1000; used += 97) {
    for (const bool leased : {false, true}) {
      Perforated f(1000);
      REQUIRE(f.begin(OwnedKey("long"), 900 * kUnit).start == WriteStart::wait);
      ReadPin pin;
      const bool there = f.store->begin_read(f.name(used), leased ? base::TimeNs{0} : kNoLease,
                                             f.now, pin) == Status::ok;
      REQUIRE(f.put_in_turns(OwnedKey("long"), 900 * kUnit) >= 0);
      if (!there) continue;
      CHECK(f.all(pin.bytes, f.byte(used)));
      f.store->end_read(pin);
      if (leased) CHECK(f.byte_of(f.name(used)) == f.byte(used));
      CHECK(f.store->stats().lingering == 0);
      for (const std::uint64_t lost : f.store->stats().lost_in_lease) CHECK(lost == 0);
      f.audit();
    }
  }
}

TEST_CASE("in a store about as full as it can be nobody goes out of turn") {
  StoreConfig config = StoreFixture::quiet();
  config.free_high_permille = 500;  // a stock of half: a third is free, as usual
  Perforated f(100, config);
  REQUIRE(f.put(OwnedKey("long"), 6 * kUnit));
  // The policy's first victims, wherever they lie, until two happened to be neighbours.
  int gone = 0;
  while (gone < 100 && !f.has(f.name(gone * 37 % 100))) ++gone;
  CHECK(f.left() == 100 - gone);
  CHECK(gone == static_cast<int>(f.store->stats().evicted));
}

}  // namespace
}  // namespace simm::store::testing
