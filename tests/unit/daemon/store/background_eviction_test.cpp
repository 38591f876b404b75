// Room in stock: who evicts, a put or the turns between puts, and at whose cost.
#include <algorithm>
#include <string>

#include "daemon/base/random.h"
#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {
namespace {

constexpr std::uint64_t kArena = 8 * 1024 * 1024;
constexpr std::uint64_t kObject = 4096;

// Puts objects of one tenant that were never there before.
struct Stream {
  StoreFixture& f;
  std::uint64_t tenant = 1;
  int next = 0;

  void put(int count, std::uint64_t length = kObject) {
    for (int i = 0; i < count; ++i) {
      f.now += base::kNsPerMs;
      REQUIRE(f.put(OwnedKey(std::to_string(next++), tenant), length));
    }
  }
  void put_with_turns(int bursts, int count) {
    for (int i = 0; i < bursts; ++i) {
      put(count);
      f.store->do_work(f.now);
    }
  }
};

// Tenants 1 to `count` may have an eighth of the arena each.
StoreConfig with_quotas(std::uint64_t count) {
  StoreConfig config;
  for (std::uint64_t t = 1; t <= count; ++t) config.quotas.push_back({{t}, kArena / 8, 1});
  return config;
}

void settle(StoreFixture& f) {
  while (f.store->do_work(f.now) > 0) f.audit();
}

TEST_CASE("puts into a full store evict nothing themselves while turns run between them") {
  StoreFixture f(kArena, StoreConfig{});
  Stream stream{f};
  for (const int burst : {1, 8}) {
    stream.put_with_turns(static_cast<int>(kArena / kObject) * 2 / burst, burst);
  }
  const StoreStats stats = f.store->stats();
  CHECK(stats.evicted > kArena / kObject * 2);
  CHECK(stats.evicted_inline == 0);
}

TEST_CASE("without turns puts evict themselves, and the count says so") {
  StoreFixture f(kArena, StoreConfig{});
  Stream stream{f};
  stream.put(static_cast<int>(kArena / kObject));
  CHECK(f.store->stats().evicted == 0);
  stream.put(100);
  CHECK(f.store->stats().evicted_inline == 100);
  f.store->do_work(f.now);
  CHECK(f.store->stats().evicted > 100);
  CHECK(f.store->stats().evicted_inline == 100);
}

TEST_CASE("a flood of tiny objects evicts nothing inside puts: records are kept in stock too") {
  StoreConfig config;
  config.objects_max = 4096;
  StoreFixture f(kArena, config);
  Stream stream{f};
  constexpr std::uint64_t kTiny = 128;  // all of them take a sixteenth of the arena
  for (int i = 0; i < 2 * 4096 / 16; ++i) {
    stream.put(16, kTiny);
    f.store->do_work(f.now);
  }
  const StoreStats stats = f.store->stats();
  CHECK(stats.evicted >= 4096);
  CHECK(stats.evicted_inline == 0);
  // 97 to 98 % of the records.
  CHECK(stats.objects >= 4096 / 100 * 97 - 16);
  CHECK(stats.objects <= 4096 - 4096 / 100 * 2 + 16);
}

TEST_CASE("for the stock of records those give way who hold most records, not most bytes") {
  StoreConfig config;
  config.objects_max = 4096;
  StoreFixture f(kArena, config);
  Stream large{f, 1};
  large.put(100, kArena / 128);
  Stream tiny{f, 2};
  for (int i = 0; i < 2 * 4096 / 16; ++i) {
    tiny.put(16, 128);
    f.store->do_work(f.now);
  }
  CHECK(f.store->stats().evicted >= 4096);
  CHECK(f.store->stats().evicted_inline == 0);
  for (int i = 0; i < 100; ++i) CHECK(f.has(OwnedKey(std::to_string(i), 1)));
}

TEST_CASE("of objects of all lengths few are evicted inside a put") {
  base::SeededRandom random(7);
  StoreFixture f(kArena, StoreConfig{});
  Stream stream{f};
  for (int i = 0; i < 20'000; ++i) {
    stream.put(1, 64 + random.below(4 * kObject));
    f.store->do_work(f.now);
  }
  const StoreStats stats = f.store->stats();
  CHECK(stats.evicted > 10'000);
  CHECK(stats.evicted_inline * 50 <= stats.evicted);
}

TEST_CASE("a tenant at its quota evicts nothing inside its puts either, and only its own") {
  StoreFixture f(kArena, with_quotas(1));
  Stream other{f, 9};
  other.put(100);
  Stream stream{f};
  stream.put_with_turns(static_cast<int>(kArena / kObject), 1);
  const StoreStats stats = f.store->stats();
  CHECK(stats.evicted > kArena / kObject / 2);
  CHECK(stats.evicted_inline == 0);
  CHECK(stats.evicted_for_quota == stats.evicted);
  for (int i = 0; i < 100; ++i) CHECK(f.has(OwnedKey(std::to_string(i), 9)));
  // It has 97 to 98 % of what it may have.
  CHECK(stats.extent_bytes >= kArena / 8 / 100 * 97 - kObject + 100 * kObject);
  CHECK(stats.extent_bytes <= kArena / 8 / 100 * 98 + kObject + 100 * kObject);
}

TEST_CASE("every tenant near its quota gets its turn") {
  constexpr std::uint64_t kTenants = 6;
  StoreFixture f(kArena, with_quotas(kTenants));
  for (std::uint64_t t = 1; t <= kTenants; ++t) {
    Stream stream{f, t};
    stream.put(static_cast<int>(kArena / 8 / kObject));
  }
  CHECK(f.store->stats().evicted == 0);
  for (std::uint64_t turn = 0; turn < kTenants; ++turn) CHECK(f.store->do_work(f.now) > 0);
  CHECK(f.store->do_work(f.now) == 0);
  TenantTable table = f.store->tenant_table();
  f.store->tell_tenants(table);
  for (std::uint32_t i = 0; i < table.count; ++i) {
    CHECK(table.rows[i].extent_bytes <= kArena / 8 / 1000 * 970);
    CHECK(table.rows[i].tally.evicted <= 8);
  }
}

TEST_CASE("for a quota's stock no lease breaks; it is made when the leases have ended") {
  StoreFixture f(kArena, with_quotas(1));
  Stream stream{f};
  const int count = static_cast<int>(kArena / 8 / kObject);
  stream.put(count);
  for (int i = 0; i < count; ++i) f.store->touch(OwnedKey(std::to_string(i)), 0, f.now);
  settle(f);
  CHECK(f.store->stats().evicted == 0);
  CHECK(f.store->do_work(f.now) == 0);
  f.now += 100 * kSecond;
  settle(f);
  CHECK(f.store->stats().evicted > 0);
  CHECK(f.store->stats().evicted_inline == 0);
  for (const std::uint64_t lost : f.store->stats().lost_in_lease) CHECK(lost == 0);
}

}  // namespace
}  // namespace simm::store::testing
