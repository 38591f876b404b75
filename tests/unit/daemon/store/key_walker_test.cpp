#include "daemon/store/key_walker.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/daemon/store/store_fixture.h"

namespace key_walker_test {

using namespace simm;
using namespace simm::store;
using namespace simm::store::testing;
using Kind = base::KeyEventKind;

// Follows a store from its present keys on: an index by the low half of the hash.
struct Index {
  explicit Index(Store& of) : store(of) { store.key_events().open(42); }
  void order(std::uint32_t from = 0) {
    base::KeyWalk walk;
    walk.number = ++number;
    walk.has_name_space = true;
    walk.name_space = {1};
    walk.next = from;
    REQUIRE(store.key_events().order_walk(walk));
    is_walking = true;
  }
  void take() {
    store.key_events().drain(
        [&](const base::KeyEvent& event) {
          if (event.is_walk_end) {
            CHECK(event.walk == number);
            is_walking = false;
            next = static_cast<std::uint32_t>(event.bytes);
            return;
          }
          const bool is_there = event.kind == Kind::stored || event.kind == Kind::present;
          if (event.kind == Kind::present) {
            ++presents;
            CHECK(event.walk == number);
          }
          if (is_there) there.insert(event.hash.low);
          if (!is_there) there.erase(event.hash.low);
        },
        [&](std::uint64_t lost) { gaps += lost; });
  }
  Store& store;
  std::uint32_t number = 0;
  std::uint32_t next = 0;
  bool is_walking = false;
  std::uint64_t presents = 0;
  std::uint64_t gaps = 0;
  std::set<std::uint64_t> there;
};

TEST_CASE("nobody has ordered a walk: nothing is told, and no turn has work of it") {
  StoreFixture fixture;
  REQUIRE(fixture.put(OwnedKey("a"), 100));
  Index index(*fixture.store);
  for (int turn = 0; turn < 10; ++turn) CHECK(fixture.store->do_work(fixture.now) == 0);
  index.take();
  CHECK(index.there.empty());
}

TEST_CASE("a walk tells what is there, not what has expired, with the tokens of keys") {
  StoreFixture fixture;
  const OwnedKey kept("kept");
  const OwnedKey brief("brief");
  REQUIRE(fixture.put(kept, 100));
  REQUIRE(fixture.put(brief, 100, 1, ipc::PutMode::if_absent, kSecond));
  fixture.now += 2 * kSecond;
  fixture.store->key_events().open(42);
  base::KeyWalk walk;
  walk.number = 1;
  REQUIRE(fixture.store->key_events().order_walk(walk));
  CHECK_FALSE(fixture.store->key_events().order_walk(walk));
  while (fixture.store->key_events().walk() != nullptr) (void)fixture.store->do_work(fixture.now);
  std::vector<ipc::KeyToken> present;
  fixture.store->key_events().drain(
      [&](const base::KeyEvent& event) {
        if (event.kind == Kind::present) present.push_back(event.token);
      },
      [](std::uint64_t) { FAIL("a gap"); });
  CHECK(present == std::vector<ipc::KeyToken>{ipc::key_token(42, "kept")});
}

TEST_CASE("a walk of one namespace or tenant tells nothing of another") {
  StoreFixture fixture;
  REQUIRE(fixture.put(OwnedKey("a"), 100));
  fixture.store->key_events().open();
  for (const bool by_tenant : {false, true}) {
    base::KeyWalk walk;
    walk.number = by_tenant ? 2 : 1;
    walk.has_name_space = !by_tenant;
    walk.name_space = {2};
    walk.has_tenant = by_tenant;
    walk.tenant = {~std::uint64_t{0}};
    REQUIRE(fixture.store->key_events().order_walk(walk));
    while (fixture.store->key_events().walk() != nullptr) (void)fixture.store->do_work(fixture.now);
    int told = 0;
    fixture.store->key_events().drain([&](const base::KeyEvent&) { ++told; }, [](std::uint64_t) {});
    CHECK(told == 1);  // its end
  }
}

TEST_CASE("a long walk stops after a page, and goes on from there") {
  StoreFixture fixture(16 << 20);
  constexpr std::uint64_t kKeys = 2 * KeyWalker::kWalkKeysMax + 5;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    REQUIRE(fixture.put(OwnedKey("key" + std::to_string(i)), 64));
  }
  Index index(*fixture.store);
  int pages = 0;
  do {
    index.order(index.next);
    while (index.is_walking) {
      CHECK(fixture.store->do_work(fixture.now) <= 80);
      index.take();
    }
    ++pages;
  } while (index.next != 0);
  CHECK(pages == 3);
  CHECK(index.there.size() == kKeys);
  CHECK(index.presents == kKeys);
  CHECK(index.gaps == 0);
}

TEST_CASE("a listener that is gone ends a walk that is under way") {
  StoreFixture fixture;
  REQUIRE(fixture.put(OwnedKey("a"), 100));
  Index index(*fixture.store);
  index.order();
  fixture.store->key_events().close();
  (void)fixture.store->do_work(fixture.now);
  CHECK(fixture.store->key_events().walk() == nullptr);
}

// Whoever begins in the middle of traffic knows what is there once the walk is over.
TEST_CASE("an index that begins with a walk is the store's own, whatever happens meanwhile") {
  const auto seed = std::random_device()();
  MESSAGE("seed ", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    StoreFixture fixture(256 * 1024);
    std::vector<OwnedKey> keys;
    for (int i = 0; i < 300; ++i) keys.emplace_back("key" + std::to_string(i));
    const auto step = [&] {
      const OwnedKey& key = keys[random() % keys.size()];
      fixture.now += random() % (kSecond / 10);
      if (random() % 4 == 0) {
        (void)fixture.store->remove(key, fixture.now);
      } else {
        (void)fixture.put(key, 64 + random() % 2048, 1,
                          random() % 2 == 0 ? ipc::PutMode::replace : ipc::PutMode::if_absent,
                          random() % 5 == 0 ? 5 * kSecond : 0);
      }
    };
    for (int i = 0; i < 400; ++i) step();
    Index index(*fixture.store);
    index.order();
    while (index.is_walking) {
      for (std::uint32_t i = random() % 8; i > 0; --i) step();
      (void)fixture.store->do_work(fixture.now);
      if (random() % 3 == 0) index.take();
    }
    // What has expired and was not found out yet is told when it is looked for.
    for (const OwnedKey& key : keys) (void)fixture.has(key);
    index.take();
    REQUIRE(index.gaps == 0);
    REQUIRE(index.next == 0);
    CHECK(index.presents > 0);
    CHECK(index.there.size() == fixture.store->objects());
    for (const OwnedKey& key : keys) {
      CHECK((index.there.count(key.key.hash.low) == 1) == fixture.has(key));
    }
  }
}

}  // namespace key_walker_test
