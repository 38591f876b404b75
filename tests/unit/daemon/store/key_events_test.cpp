#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/store/store_fixture.h"

namespace key_events_test {

using namespace simm;
using namespace simm::store;
using namespace simm::store::testing;
using Kind = base::KeyEventKind;

using Told = std::vector<std::pair<Kind, std::uint64_t>>;  // by the low half of the hash

struct Listener {
  explicit Listener(Store& of) : store(of) { store.key_events().open(); }
  Told take() {
    Told told;
    store.key_events().drain(
        [&](const base::KeyEvent& event) {
          CHECK(event.name_space.value == 1);
          told.emplace_back(event.kind, event.hash.low);
          bytes = event.bytes;
        },
        [&](std::uint64_t lost) { gaps += lost; });
    return told;
  }
  Store& store;
  std::uint64_t gaps = 0;
  std::uint64_t bytes = 0;  // of the last event
};

std::pair<Kind, std::uint64_t> of(Kind kind, const OwnedKey& key) {
  return {kind, key.key.hash.low};
}

TEST_CASE(
    "a put, a replacement and a removal are told in their order; what changes nothing is not") {
  StoreFixture fixture;
  Listener listener(*fixture.store);
  const OwnedKey key("a");
  REQUIRE(fixture.put(key, 300));
  REQUIRE(fixture.put(key, 300));  // is there already
  CHECK(listener.take() == Told{of(Kind::stored, key)});
  CHECK(listener.bytes == 300);
  REQUIRE(fixture.put(key, 500, 2, ipc::PutMode::replace));
  CHECK(listener.take() == Told{of(Kind::stored, key)});
  CHECK(listener.bytes == 500);
  const WriteResult open = fixture.begin(OwnedKey("b"), 100);
  REQUIRE(open.start == WriteStart::reserved);
  fixture.store->abandon(open.reservation);
  REQUIRE(fixture.store->remove(key, fixture.now));
  CHECK_FALSE(fixture.store->remove(key, fixture.now));
  CHECK(listener.take() == Told{of(Kind::removed, key)});
  CHECK(listener.gaps == 0);
}

TEST_CASE("nobody listens: nothing is kept for later") {
  StoreFixture fixture;
  REQUIRE(fixture.put(OwnedKey("a"), 100));
  Listener listener(*fixture.store);
  CHECK(listener.take().empty());
  CHECK(listener.gaps == 0);
}

TEST_CASE("what leaves for another object, and what is over, says why") {
  StoreFixture fixture(64 * 1024);
  Listener listener(*fixture.store);
  const OwnedKey first("first");
  const OwnedKey second("second");
  REQUIRE(fixture.put(first, 40'000));
  fixture.now += 20 * kSecond;
  REQUIRE(fixture.put(second, 40'000));
  CHECK(listener.take() ==
        Told{of(Kind::stored, first), of(Kind::evicted, first), of(Kind::stored, second)});
  const OwnedKey brief("brief");
  REQUIRE(fixture.put(brief, 64, 1, ipc::PutMode::if_absent, kSecond));
  fixture.now += 2 * kSecond;
  CHECK_FALSE(fixture.has(brief));  // found out by who asks
  CHECK(listener.take() == Told{of(Kind::stored, brief), of(Kind::expired, brief)});
  REQUIRE(fixture.put(brief, 64, 1, ipc::PutMode::if_absent, kSecond));
  fixture.now += 100 * kSecond;
  for (int turn = 0; turn < 10'000; ++turn) (void)fixture.store->do_work(fixture.now);
  CHECK(listener.take() == Told{of(Kind::stored, brief), of(Kind::expired, brief)});
}

TEST_CASE("an object whose slot goes is told as moved") {
  StoreFixture fixture;
  Listener listener(*fixture.store);
  const OwnedKey key("a");
  REQUIRE(fixture.put(key, 100));
  const base::SlotOwnership nothing{};
  fixture.store->keep_slots(nothing);
  while (fixture.store->dropping_slots()) (void)fixture.store->do_work(fixture.now);
  CHECK(listener.take() == Told{of(Kind::stored, key), of(Kind::moved, key)});
}

TEST_CASE("damaged bytes are told; a damaged record is a gap, as its tenant may be another's") {
  StoreFixture fixture;
  Listener listener(*fixture.store);
  const OwnedKey bytes("bytes");
  const OwnedKey record("record");
  REQUIRE(fixture.put(bytes, 100));
  REQUIRE(fixture.put(record, 100));
  (void)listener.take();
  ReadPin pin;
  REQUIRE(fixture.store->begin_read(bytes, kNoLease, fixture.now, pin) == Status::ok);
  fixture.store->quarantine(pin, fixture.now);
  fixture.store->end_read(pin);
  CHECK(listener.take() == Told{of(Kind::damaged, bytes)});
  CHECK(listener.gaps == 0);
  StoreTestAccess::record_of(*fixture.store, record).payload_digest ^= 64;
  REQUIRE(fixture.store->begin_read(record, kNoLease, fixture.now, pin) == Status::corrupt);
  CHECK(listener.take().empty());
  CHECK(listener.gaps == 1);
}

// Whoever follows the events knows what is there, whatever happens.
TEST_CASE("an index that is made of events is the store's own, after random work") {
  const auto seed = std::random_device()();
  MESSAGE("seed ", seed);
  std::mt19937 random(seed);
  StoreFixture fixture(64 * 1024);
  Listener listener(*fixture.store);
  std::vector<OwnedKey> keys;
  for (int i = 0; i < 64; ++i) keys.emplace_back("key" + std::to_string(i));
  std::vector<std::uint64_t> index;
  for (int step = 0; step < 5'000; ++step) {
    const OwnedKey& key = keys[random() % keys.size()];
    fixture.now += random() % kSecond;
    switch (random() % 4) {
      case 0:
        (void)fixture.store->remove(key, fixture.now);
        break;
      case 1:
        (void)fixture.store->do_work(fixture.now);
        break;
      default:
        (void)fixture.put(key, 64 + random() % 4096, 1,
                          random() % 2 == 0 ? ipc::PutMode::replace : ipc::PutMode::if_absent,
                          random() % 3 == 0 ? 5 * kSecond : 0);
    }
    for (const auto& [kind, hash] : listener.take()) {
      const auto found = std::find(index.begin(), index.end(), hash);
      if (kind == Kind::stored && found == index.end()) index.push_back(hash);
      if (kind == Kind::stored) continue;
      REQUIRE(found != index.end());  // nothing leaves that was not told of
      index.erase(found);
    }
  }
  REQUIRE(listener.gaps == 0);
  // What has expired and was not found out yet is told when it is looked for.
  for (const OwnedKey& key : keys) (void)fixture.has(key);
  for (const auto& [kind, hash] : listener.take()) std::erase(index, hash);
  CHECK(index.size() == fixture.store->objects());
  for (const OwnedKey& key : keys) {
    const bool is_known = std::find(index.begin(), index.end(), key.key.hash.low) != index.end();
    CHECK(is_known == fixture.has(key));
  }
}

}  // namespace key_events_test
