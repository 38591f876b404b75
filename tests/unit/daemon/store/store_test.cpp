#include "daemon/store/store.h"

#include <string>
#include <vector>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

TEST_CASE("a reservation is invisible until it is published") {
  StoreFixture f;
  const OwnedKey key("a");
  const WriteResult written = f.begin(key, 100);
  REQUIRE(written.start == WriteStart::reserved);
  CHECK(written.reservation.extent.size() == 100);
  CHECK_FALSE(f.has(key));
  CHECK(f.store->exists(key, 0, f.now) == 0);
  f.audit();
  CHECK(f.store->publish(written.reservation, f.fill(written.reservation, 7), 1, f.now) == 100);
  CHECK(f.byte_of(key) == 7);
  CHECK(f.store->exists(key, 0, f.now) == 100);
}

TEST_CASE("an abandoned reservation leaves nothing") {
  StoreFixture f;
  const OwnedKey key("a");
  const WriteResult written = f.begin(key, 100);
  f.store->abandon(written.reservation);
  CHECK_FALSE(f.has(key));
  CHECK(f.store->stats().free_bytes == f.store->stats().arena_bytes);
  CHECK(f.store->stats().abandoned == 1);
}

TEST_CASE("keys differ by tenant, namespace and every byte") {
  StoreFixture f;
  const std::string long_name(1024, 'k');
  const std::string other_long = long_name.substr(0, 1023) + "x";
  const std::vector<OwnedKey> keys = {{"a"},
                                      {"b"},
                                      {"a", 2},
                                      {"a", 1, 2},
                                      {long_name},
                                      {other_long},
                                      {std::string(112, 'm')},
                                      {std::string(113, 'm')}};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    REQUIRE(f.put(keys[i], 64 + i, static_cast<std::uint8_t>(i)));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) CHECK(f.byte_of(keys[i]) == static_cast<int>(i));
  CHECK(f.store->stats().objects == keys.size());
}

TEST_CASE("keys with one hash are objects of their own") {
  StoreFixture f;
  OwnedKey a("a");
  OwnedKey b("b");
  OwnedKey c("a", 2);
  b.key.hash = a.key.hash;
  c.key.hash = a.key.hash;
  OwnedKey d("a", 1, 2);
  d.key.hash = a.key.hash;
  REQUIRE(f.put(a, 10, 1));
  CHECK_FALSE(f.has(b));
  CHECK_FALSE(f.has(c));
  CHECK_FALSE(f.has(d));
  REQUIRE(f.put(b, 10, 2));
  REQUIRE(f.put(c, 10, 3));
  CHECK(f.byte_of(a) == 1);
  CHECK(f.byte_of(b) == 2);
  CHECK(f.byte_of(c) == 3);
  CHECK(f.store->remove(a, f.now));
  CHECK(f.byte_of(b) == 2);
}

TEST_CASE("if_absent does not touch an object that is there") {
  StoreFixture f;
  const OwnedKey key("a");
  REQUIRE(f.put(key, 100, 1));
  const WriteResult again = f.begin(key, 50);
  CHECK(again.start == WriteStart::already_present);
  CHECK(again.present_length == 100);
  CHECK(f.byte_of(key) == 1);
}

TEST_CASE("of two racing if_absent puts the first to publish wins, the second discards its bytes") {
  StoreFixture f;
  const OwnedKey key("a");
  const WriteResult first = f.begin(key, 100);
  const WriteResult second = f.begin(key, 200);
  REQUIRE(second.start == WriteStart::reserved);
  CHECK(f.store->publish(second.reservation, f.fill(second.reservation, 2), 1, f.now) == 200);
  CHECK(f.store->publish(first.reservation, f.fill(first.reservation, 1), 1, f.now) == 200);
  CHECK(f.byte_of(key) == 2);
  CHECK(f.store->stats().objects == 1);
  CHECK(f.store->stats().reserved == 0);
}

TEST_CASE("of two racing replacements the last to publish wins") {
  StoreFixture f;
  const OwnedKey key("a");
  REQUIRE(f.put(key, 10, 9));
  const WriteResult first = f.begin(key, 100, ipc::PutMode::replace);
  const WriteResult second = f.begin(key, 200, ipc::PutMode::replace);
  CHECK(f.byte_of(key) == 9);
  f.store->publish(second.reservation, f.fill(second.reservation, 2), 1, f.now);
  CHECK(f.byte_of(key) == 2);
  f.store->publish(first.reservation, f.fill(first.reservation, 1), 1, f.now);
  CHECK(f.byte_of(key) == 1);
  CHECK(f.store->stats().objects == 1);
  CHECK(f.store->stats().replacements == 2);
}

TEST_CASE("an extent is not used again while somebody reads it") {
  StoreFixture f(4096);
  const OwnedKey key("a");
  REQUIRE(f.put(key, 4096, 1));
  ReadPin pin;
  REQUIRE(f.store->begin_read(key, kNoLease, f.now, pin) == Status::ok);
  ReadPin second;
  REQUIRE(f.store->begin_read(key, kNoLease, f.now, second) == Status::ok);
  CHECK(f.store->remove(key, f.now));
  CHECK_FALSE(f.has(key));
  f.audit();
  CHECK(f.begin(key, 64).start == WriteStart::wait);
  CHECK(static_cast<int>(pin.bytes[4095]) == 1);
  f.store->end_read(pin);
  CHECK(f.begin(key, 64).start == WriteStart::wait);
  CHECK(f.store->stats().lingering == 1);
  f.store->end_read(second);
  CHECK(f.store->stats().lingering == 0);
  CHECK(f.put(key, 4096, 2));
}

TEST_CASE("a pinned object survives its replacement for its reader") {
  StoreFixture f;
  const OwnedKey key("a");
  REQUIRE(f.put(key, 1000, 1));
  ReadPin pin;
  REQUIRE(f.store->begin_read(key, kNoLease, f.now, pin) == Status::ok);
  REQUIRE(f.put(key, 1000, 2, ipc::PutMode::replace));
  CHECK(f.byte_of(key) == 2);
  CHECK(static_cast<int>(pin.bytes[999]) == 1);
  f.store->end_read(pin);
}

TEST_CASE("quarantine takes an object out of sight but leaves the pin valid") {
  StoreFixture f;
  const OwnedKey key("a");
  REQUIRE(f.put(key, 100, 1));
  ReadPin pin;
  ReadPin other;
  REQUIRE(f.store->begin_read(key, 0, f.now, pin) == Status::ok);
  REQUIRE(f.store->begin_read(key, 0, f.now, other) == Status::ok);
  f.store->quarantine(pin, f.now);
  f.store->quarantine(other, f.now);
  CHECK_FALSE(f.has(key));
  CHECK(f.store->stats().quarantined == 1);
  CHECK(f.store->stats().lost_in_lease[static_cast<std::size_t>(LeaseLoss::corrupt)] == 1);
  f.store->end_read(pin);
  f.audit();
  f.store->end_read(other);
  CHECK(f.put(key, 100, 2));
}

TEST_CASE("a damaged record is found out before its extent is touched") {
  StoreFixture f;
  const OwnedKey key("a");
  REQUIRE(f.put(key, 1000, 1));
  f.store->touch(key, 0, f.now);
  Record& record = StoreTestAccess::record_of(*f.store, key);
  SUBCASE("expiry") {
    record.expires_ns = f.now * 2;
  }
  SUBCASE("offset") {
    record.place += 1;
  }
  SUBCASE("digest") {
    record.payload_digest ^= 1;
  }
  SUBCASE("generation") {
    record.generation += 1;
  }
  ReadPin pin;
  CHECK(f.store->begin_read(key, 0, f.now, pin) == Status::corrupt);
  CHECK(f.store->begin_read(key, 0, f.now, pin) == Status::not_found);
  CHECK(f.store->stats().damaged_records == 1);
  CHECK(f.store->stats().quarantined == 1);
  CHECK(f.store->stats().lost_in_lease[static_cast<std::size_t>(LeaseLoss::corrupt)] == 1);
  CHECK(f.store->stats().free_bytes == f.store->stats().arena_bytes);
}

TEST_CASE("one put evicts a bounded number of objects, and is asked to come again") {
  StoreFixture f(64 * 1024);
  for (int i = 0; i < 1024; ++i) REQUIRE(f.put(OwnedKey("s" + std::to_string(i)), 64));
  const OwnedKey large("large");
  int attempts = 1;
  WriteResult result = f.begin(large, 64 * 1024);
  for (; result.start == WriteStart::wait; ++attempts) {
    CHECK(f.store->stats().evicted <= static_cast<std::uint64_t>(attempts) * 128);
    result = f.begin(large, 64 * 1024);
  }
  CHECK(attempts >= 8);
  REQUIRE(result.start == WriteStart::reserved);
  f.store->abandon(result.reservation);
  CHECK(f.store->stats().space_waits == static_cast<std::uint64_t>(attempts) - 1);
}

TEST_CASE("a value that can never fit is refused at once") {
  StoreFixture f(4096);
  CHECK(f.begin(OwnedKey("a"), 4097).start == WriteStart::no_space);
  CHECK(f.put(OwnedKey("a"), 4096));
  CHECK(f.store->stats().refused_no_space == 1);
}

TEST_CASE("more objects than objects_max evict the oldest, however small they are") {
  StoreFixture f(64 * 1024, StoreFixture::quiet(4));
  for (int i = 0; i < 6; ++i) REQUIRE(f.put(OwnedKey("k" + std::to_string(i)), 64));
  CHECK_FALSE(f.has(OwnedKey("k0")));
  CHECK_FALSE(f.has(OwnedKey("k1")));
  for (int i = 2; i < 6; ++i) CHECK(f.has(OwnedKey("k" + std::to_string(i))));
}

TEST_CASE("create refuses what can not work, in words") {
  std::vector<std::byte> arena(63);
  CHECK(Store::create(StoreConfig{}, arena).status() == Status::invalid_argument);
  arena.resize(4096);
  StoreConfig config;
  config.free_low_permille = config.free_high_permille + 1;
  const auto made = Store::create(config, arena);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().context.find("watermarks") != std::string::npos);
}

}  // namespace simm::store::testing
