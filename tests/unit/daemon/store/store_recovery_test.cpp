// What a store finds again in the memory that an earlier one left, and what it does not.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/slot_ownership.h"
#include "kept_memory.h"
#include "store_fixture.h"
#include "store_life.h"

namespace simm::store::testing {

namespace recovery_test {

constexpr std::uint64_t kArenaBytes = 64 * 1024;

const StoreConfig kSmall = StoreFixture::quiet(64);

}  // namespace recovery_test

TEST_CASE("recovery: a life finds what the one before left, and nothing that it had given up") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey kept("kept");
  const OwnedKey long_kept(std::string(1000, 'l'));
  const OwnedKey removed("removed");
  const OwnedKey long_removed(std::string(900, 'r'));
  const OwnedKey replaced("replaced");
  const OwnedKey unfinished("unfinished");
  {
    Life life(memory, Contents::fresh);
    REQUIRE(life.put(kept, 1000, 1));
    REQUIRE(life.put(long_removed, 500, 2));
    REQUIRE(life.put(long_kept, 3000, 3));
    REQUIRE(life.put(removed, 64, 4));
    REQUIRE(life.put(replaced, 200, 5));
    REQUIRE(life.put(replaced, 300, 6));
    REQUIRE(life.store->remove(removed, life.now));
    REQUIRE(life.store->remove(long_removed, life.now));
    const WriteResult begun =
        life.store->begin_write({unfinished, 100, ipc::PutMode::replace, 0}, life.now);
    REQUIRE(begun.start == WriteStart::reserved);
    StoreFixture::fill(begun.reservation, 9);
  }
  for (int round = 0; round < 2; ++round) {  // coming back changes nothing that matters
    Life life(memory);
    CHECK(life.store->stats().recovered == 3);
    CHECK(life.store->stats().unverified == 3);
    CHECK(life.store->stats().objects == 3);
    CHECK(life.store->stats().payload_bytes == 1000 + 3000 + 300);
    CHECK(life.store->stats().lost_at_recovery == std::array<std::uint64_t, kRecoveryLossCount>{});
    CHECK(life.byte_of(kept) == 1);
    CHECK(life.byte_of(long_kept) == 3);
    CHECK(life.byte_of(replaced) == 6);
    CHECK(life.byte_of(removed) == -1);
    CHECK(life.byte_of(long_removed) == -1);
    CHECK(life.byte_of(unfinished) == -1);
    CHECK(life.store->stats().unverified == 0);
    life.audit();
  }
  Life life(memory);
  // It is a store like any other: what is free is used again, and full is full.
  for (int i = 0; i < 200; ++i) {
    REQUIRE(life.put(OwnedKey("n" + std::to_string(i)), 2000, static_cast<std::uint8_t>(i)));
    REQUIRE(life.put(OwnedKey(std::string(200, 'x') + std::to_string(i)), 100, 1));
  }
  life.audit();
  CHECK(life.byte_of(OwnedKey("n199")) == 199);
  Life next(memory);
  CHECK(next.byte_of(OwnedKey("n199")) == 199);
  CHECK(next.store->stats().recovered == life.store->stats().objects);
}

TEST_CASE("recovery: no lease survives, and the oldest objects are the first to go") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  {
    Life life(memory, Contents::fresh);
    for (int i = 0; i < 8; ++i) {
      REQUIRE(life.put(OwnedKey("k" + std::to_string(i)), 8192, static_cast<std::uint8_t>(i)));
    }
    life.store->touch(OwnedKey("k0"), 0, life.now);
    CHECK(life.store->stats().leased_bytes == 8192);
  }
  Life life(memory);
  CHECK(life.store->stats().leased_bytes == 0);
  REQUIRE(life.put(OwnedKey("new"), 8192, 99));
  CHECK(life.byte_of(OwnedKey("k0")) == -1);
  CHECK(life.byte_of(OwnedKey("k1")) == 1);
}

TEST_CASE("recovery: a group comes back as one") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey key("g_k", 1, 1, "g");
  const OwnedKey value("g_v", 1, 1, "g");
  {
    Life life(memory, Contents::fresh);
    REQUIRE(life.put(key, 100, 1));
    REQUIRE(life.put(value, 100, 2));
  }
  Life life(memory);
  CHECK(life.store->stats().groups == 1);
  CHECK(life.store->exists(value, 0, life.now) == 100);
  CHECK(life.store->stats().leased_bytes == 256);
}

TEST_CASE("recovery: a TTL goes on under the clock of its boot, and ends with it") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey brief("brief");
  const OwnedKey lasting("lasting");
  const OwnedKey endless("endless");
  {
    Life life(memory, Contents::fresh);
    REQUIRE(life.put(brief, 100, 1, ipc::PutMode::replace, 5 * kSecond));
    REQUIRE(life.put(lasting, 100, 2, ipc::PutMode::replace, 50 * kSecond));
    REQUIRE(life.put(endless, 100, 3));
  }
  SUBCASE("the same boot") {
    auto store = memory.open(memory.as(Contents::kept, 1010 * kSecond));
    CHECK(store->stats().lost_at_recovery[static_cast<std::size_t>(RecoveryLoss::expired)] == 1);
    ReadPin pin;
    CHECK(store->begin_read(brief, kNoLease, 1010 * kSecond, pin) == Status::not_found);
    REQUIRE(store->begin_read(lasting, kNoLease, 1010 * kSecond, pin) == Status::ok);
    store->end_read(pin);
    CHECK(store->begin_read(lasting, kNoLease, 1050 * kSecond, pin) == Status::not_found);
  }
  SUBCASE("its time comes without a reader") {
    auto store = memory.open(memory.as(Contents::kept, 1010 * kSecond));
    for (base::TimeNs at = 1010; at < 1100; ++at) store->do_work(at * kSecond);
    CHECK(store->stats().objects == 1);
  }
  SUBCASE("another boot") {
    for (int round = 0; round < 2; ++round) {
      Life life(memory, Contents::kept, 2);
      CHECK(life.lost(RecoveryLoss::expired) == (round == 0 ? 2u : 0u));
      CHECK(life.byte_of(lasting) == -1);
      CHECK(life.byte_of(endless) == 3);
    }
  }
}

TEST_CASE("recovery: what lost its slot in the meantime is not there from the first call on") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey stayed("stayed");
  const OwnedKey left("left");
  const OwnedKey came_back("came back");
  {
    Life life(memory, Contents::fresh);  // puts under epoch 7
    REQUIRE(life.put(stayed, 100, 1));
    REQUIRE(life.put(left, 100, 2));
    REQUIRE(life.put(came_back, 100, 3));
  }
  auto ownership = std::make_unique<base::SlotOwnership>();
  ownership->epoch = 12;
  ownership->since.fill(3);
  ownership->since[base::slot_of(left.key.group)] = 0;
  ownership->since[base::slot_of(came_back.key.group)] = 9;
  Life life(memory);
  life.store->keep_slots(*ownership);
  CHECK(life.store->exists(left, 0, life.now) == 0);
  CHECK(life.byte_of(came_back) == -1);
  CHECK(life.byte_of(stayed) == 1);
  while (life.store->dropping_slots()) life.store->do_work(life.now);
  CHECK(life.store->stats().objects == 1);
  CHECK(life.store->stats().disowned == 2);
  life.audit();
  Life next(memory);
  CHECK(next.store->stats().recovered == 1);
}

TEST_CASE("recovery: the process died in a replacement, and the newer put is the object") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey key("key");
  Record old;
  std::uint32_t old_number = 1;
  {
    Life life(memory, Contents::fresh);
    SUBCASE("the older entry has the lower number") {}
    SUBCASE("the newer entry has the lower number") {
      old_number = 2;
      REQUIRE(life.put(key, 100, 0));  // in entry 1, which the third put then gets
    }
    REQUIRE(life.put(key, 100, 1));
    old = StoreTestAccess::record_of(*life.store, key);
    REQUIRE(life.put(key, 200, 2));
  }
  memory.record(old_number) = old;  // as it was for a moment
  for (const std::uint64_t superseded : {1u, 0u}) {
    Life life(memory);
    CHECK(life.lost(RecoveryLoss::superseded) == superseded);
    CHECK(life.byte_of(key) == 2);
    CHECK(life.store->stats().objects == 1);
  }
}

TEST_CASE("recovery: quotas and limits of today hold for what comes back") {
  StoreConfig config = recovery_test::kSmall;
  KeptMemory memory(config, recovery_test::kArenaBytes);
  {
    Life life(memory, Contents::fresh);
    for (int i = 0; i < 8; ++i) {
      REQUIRE(life.put(OwnedKey("k" + std::to_string(i), 5), 4096, static_cast<std::uint8_t>(i)));
    }
    REQUIRE(life.put(OwnedKey("other", 6), 4096, 42));
  }
  config.quotas = {{base::TenantId{5}, 3 * 4096}};
  config.tenants_max = 1;
  auto made = Store::create(config, memory.as(Contents::kept));
  REQUIRE(made.has_value());
  Store& store = **made;
  CHECK(store.audit() == nullptr);
  CHECK(store.stats().recovered == 3);
  CHECK(store.stats().lost_at_recovery[static_cast<std::size_t>(RecoveryLoss::refused)] == 6);
  CHECK(store.exists(OwnedKey("k7", 5), 0, 1000 * kSecond) == 4096);
  CHECK(store.exists(OwnedKey("k4", 5), 0, 1000 * kSecond) == 0);
}

TEST_CASE("recovery: an older put does not come back where the newest one is refused") {
  StoreConfig config = recovery_test::kSmall;
  KeptMemory memory(config, recovery_test::kArenaBytes);
  const OwnedKey key("key", 5);
  Record old;
  {
    Life life(memory, Contents::fresh);
    REQUIRE(life.put(key, 100, 1));
    old = StoreTestAccess::record_of(*life.store, key);
    REQUIRE(life.put(key, 8192, 2));
  }
  memory.record(1) = old;
  config.quotas = {{base::TenantId{5}, 4096}};
  auto made = Store::create(config, memory.as(Contents::kept));
  REQUIRE(made.has_value());
  CHECK((*made)->audit() == nullptr);
  CHECK((*made)->exists(key, 0, 1000 * kSecond) == 0);
  CHECK((*made)->stats().lost_at_recovery[static_cast<std::size_t>(RecoveryLoss::superseded)] == 1);
  CHECK((*made)->stats().lost_at_recovery[static_cast<std::size_t>(RecoveryLoss::refused)] == 1);
}

TEST_CASE("recovery: objects that moved are found where they are") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  std::vector<std::uint64_t> moved;
  {
    Life life(memory, Contents::fresh);
    for (int i = 0; i < 8; ++i) {
      REQUIRE(life.put(OwnedKey("k" + std::to_string(i)), 8192, static_cast<std::uint8_t>(i)));
    }
    REQUIRE(life.store->remove(OwnedKey("k1"), life.now));
    REQUIRE(life.store->remove(OwnedKey("k3"), life.now));
    REQUIRE(life.store->remove(OwnedKey("k6"), life.now));
    REQUIRE(life.put(OwnedKey("wide"), 16384, 77));
    REQUIRE(life.store->stats().moved > 0);
  }
  Life life(memory);
  CHECK(life.byte_of(OwnedKey("wide")) == 77);
  for (const int i : {0, 2, 4, 5, 7}) CHECK(life.byte_of(OwnedKey("k" + std::to_string(i))) == i);
}

TEST_CASE("recovery: a table of another shape gives an empty store, which then is one of this") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey key("key");
  {
    Life life(memory, Contents::fresh);
    REQUIRE(life.put(key, 100, 1));
  }
  StoreConfig config = recovery_test::kSmall;
  ShardMemory shard = memory.as(Contents::kept);
  SUBCASE("fewer objects") {
    config.objects_max = 32;
  }
  SUBCASE("a shorter arena") {
    shard.payload = shard.payload.first(recovery_test::kArenaBytes / 2);
  }
  SUBCASE("another format") {
    memory.header().format += 1;
  }
  SUBCASE("no magic") {
    memory.header().magic = 0;
  }
  SUBCASE("more records than there can be") {
    memory.header().highest = 65;
  }
  auto made = Store::create(config, shard);
  REQUIRE(made.has_value());
  CHECK((*made)->stats().refused_tables == 1);
  CHECK((*made)->stats().objects == 0);
  CHECK((*made)->audit() == nullptr);
  CHECK((*made)->exists(key, 0, 1000 * kSecond) == 0);
  auto next = Store::create(config, shard);
  REQUIRE(next.has_value());
  CHECK((*next)->stats().refused_tables == 0);
  // Records that the refused table had are not there in a later life either.
  CHECK((*next)->stats().recovered == 0);
}

TEST_CASE("recovery: a table that is too short, or askew, is refused in words") {
  const StoreConfig config = recovery_test::kSmall;
  KeptMemory memory(config, recovery_test::kArenaBytes);
  ShardMemory shard = memory.as(Contents::kept);
  shard.table = shard.table.first(shard.table.size() - 1);
  const auto shorter = Store::create(config, shard);
  REQUIRE_FALSE(shorter.has_value());
  CHECK(shorter.error().context.find("are needed") != std::string::npos);
  shard.table = {memory.table().data() + 64, memory.table().size()};
  CHECK(Store::create(config, shard).status() == Status::invalid_argument);
  StoreConfig wrong = config;
  wrong.objects_max = ~0u;
  CHECK(Store::table_bytes_for(wrong, recovery_test::kArenaBytes) == 0);
}

TEST_CASE("recovery: two entries that claim the same bytes are both given up") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey first("first");
  const OwnedKey second("second");
  const OwnedKey apart("apart");
  const OwnedKey long_one(std::string(300, 'a'));
  const OwnedKey long_two(std::string(300, 'b'));
  {
    Life life(memory, Contents::fresh);
    for (const OwnedKey* key : {&first, &second, &apart, &long_one, &long_two}) {
      REQUIRE(life.put(*key, 1000, 1));
    }
  }
  SUBCASE("of the arena") {
    Record& liar = memory.record(2);
    liar.place = place_at(liar, extent_offset(memory.record(1)) + 64);
    Life life(memory);
    CHECK(life.lost(RecoveryLoss::overlapping) == 2);
    CHECK(life.byte_of(first) == -1);
    CHECK(life.byte_of(second) == -1);
    CHECK(life.byte_of(apart) == 1);
  }
  SUBCASE("one that covers all of them") {
    Record& liar = memory.record(1);
    liar.length = recovery_test::kArenaBytes;
    seal(liar);
    Life life(memory);
    CHECK(life.lost(RecoveryLoss::overlapping) == 5);
    CHECK(life.store->stats().objects == 0);
  }
  SUBCASE("of the long keys") {
    Record& liar = memory.record(5);
    liar.long_key = memory.record(4).long_key;
    liar.key_check = memory.record(4).key_check;
    seal(liar);
    Life life(memory);
    CHECK(life.lost(RecoveryLoss::overlapping) == 2);
    CHECK(life.byte_of(long_one) == -1);
    CHECK(life.byte_of(apart) == 1);
  }
}

TEST_CASE("recovery: a sealed entry that says what no store says is given up") {
  KeptMemory memory(recovery_test::kSmall, recovery_test::kArenaBytes);
  const OwnedKey key("key");
  {
    Life life(memory, Contents::fresh);
    REQUIRE(life.put(key, 1000, 1));
    REQUIRE(life.put(OwnedKey("apart"), 1000, 1));
  }
  Record& liar = memory.record(1);
  std::uint64_t offset = extent_offset(liar);
  SUBCASE("length 0") {
    liar.length = 0;
  }
  SUBCASE("longer than the arena") {
    liar.length = recovery_test::kArenaBytes + 1;
  }
  SUBCASE("longer than any value") {
    liar.length = ~std::uint64_t{0};
  }
  SUBCASE("beyond the arena's end") {
    offset = recovery_test::kArenaBytes - 64;
  }
  SUBCASE("no generation") {
    liar.generation = 0;
  }
  SUBCASE("the last generation") {
    liar.generation = ~std::uint64_t{0};
  }
  SUBCASE("no key") {
    liar.key_bytes = 0;
  }
  SUBCASE("a key longer than keys are") {
    liar.key_bytes = 1025;
    liar.long_key = 1;
  }
  SUBCASE("a long key where there is none") {
    liar.long_key = 1;
  }
  SUBCASE("a long key nowhere") {
    liar.key_bytes = 113;
  }
  SUBCASE("a long key that was never used") {
    liar.key_bytes = 113;
    liar.long_key = 3;
  }
  liar.place = place_at(liar, offset);
  seal(liar);
  Life life(memory);
  CHECK(life.lost(RecoveryLoss::impossible) == 1);
  CHECK(life.byte_of(key) == -1);
  CHECK(life.byte_of(OwnedKey("apart")) == 1);
}

TEST_CASE("recovery: several threads find what one finds, and a stop leaves all to the next life") {
  constexpr int kObjects = 150'000;  // more than two ranges of the scan, and parts of the sort
  constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;
  const KeptMemory memory(StoreFixture::quiet(kObjects), kBytes);
  {
    Life life(const_cast<KeptMemory&>(memory), Contents::fresh);
    for (int i = 0; i < kObjects; ++i) {
      REQUIRE(life.put(OwnedKey("k" + std::to_string(i)), 64, static_cast<std::uint8_t>(i)));
    }
  }
  for (const std::uint32_t number : {1u, 70'000u, 149'999u}) memory.record(number).length ^= 1;
  const auto open = [&] {
    auto made = Store::open(memory.config(), memory.as(Contents::kept));
    REQUIRE(made.has_value());
    return std::move(*made);
  };
  {
    const auto store = open();
    RecoveryCrew crew(4);
    crew.stop();
    CHECK(store->recover(memory.as(Contents::kept), crew).status() == Status::cancelled);
  }
  for (const std::uint32_t threads : {4u, 1u}) {
    const auto store = open();
    RecoveryCrew crew(threads);
    REQUIRE(store->recover(memory.as(Contents::kept), crew));
    CHECK(store->stats().recovered == kObjects - 3);
    // What the first life found out is not there for the second one to find.
    CHECK(store->stats().lost_at_recovery[static_cast<std::size_t>(RecoveryLoss::damaged)] ==
          (threads == 4 ? 3 : 0));
    CHECK(crew.done() > 2 * kObjects);
    CHECK(crew.total() == 3 * kObjects);
    const char* wrong = store->audit();
    CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
  }
}

}  // namespace simm::store::testing
