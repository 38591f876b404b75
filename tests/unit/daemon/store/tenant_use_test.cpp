#include "daemon/store/eviction/tenant_use.h"

#include <map>
#include <string>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {
namespace {

constexpr std::uint64_t kArena = 64 * 1024;

std::map<std::uint64_t, TenantUse> uses_of(const StoreFixture& f) {
  TenantTable table = f.store->tenant_table();
  f.store->tell_tenants(table);
  std::map<std::uint64_t, TenantUse> found;
  for (std::uint32_t i = 0; i < table.count; ++i) {
    CHECK(found.emplace(table.rows[i].tenant.value, table.rows[i]).second);
  }
  return found;
}

StoreConfig with_quotas() {
  StoreConfig config = StoreFixture::quiet();
  config.quotas = {{{1}, kArena / 4, 1}, {{2}, 0, 3}};
  config.pin_budget_percent = 100;
  return config;
}

TEST_CASE("each tenant's objects, bytes, leases and pins are told apart") {
  StoreFixture f(kArena, with_quotas());
  REQUIRE(f.put(OwnedKey("a", 1), 1000));
  REQUIRE(f.put(OwnedKey("b", 1), 100));
  REQUIRE(f.put(OwnedKey("a", 2), 5000));
  REQUIRE(f.put(OwnedKey("c", 7), 64));
  REQUIRE(f.store->exists(OwnedKey("a", 1), 0, f.now) == 1000);
  REQUIRE(f.store->pin(OwnedKey("b", 1), f.now) == Status::ok);
  auto uses = uses_of(f);
  REQUIRE(uses.size() == 3);
  CHECK(uses[1].tally.objects == 2);
  CHECK(uses[1].tally.payload_bytes == 1100);
  CHECK(uses[1].extent_bytes == 1024 + 128);
  CHECK(uses[1].leased_bytes == 1024);
  CHECK(uses[1].pinned_bytes == 128);
  CHECK(uses[2].tally.payload_bytes == 5000);
  CHECK(uses[2].leased_bytes == 0);
  CHECK(uses[7].tally.objects == 1);
  CHECK(f.store->remove(OwnedKey("a", 1), f.now));
  REQUIRE(f.put(OwnedKey("b", 1), 300, 1, ipc::PutMode::replace));
  uses = uses_of(f);
  CHECK(uses[1].tally.objects == 1);
  CHECK(uses[1].tally.payload_bytes == 300);
  CHECK(uses[1].leased_bytes == 0);
}

TEST_CASE("a tenant's quota, weight and fair share are told, of configured ones from the start") {
  StoreFixture f(kArena, with_quotas());
  auto uses = uses_of(f);
  REQUIRE(uses.size() == 2);
  CHECK(uses[1].quota_bytes == kArena / 4);
  CHECK(uses[2].quota_bytes == kArena);
  CHECK(uses[2].weight == 3);
  CHECK(uses[2].fair_bytes == kArena);  // alone
  REQUIRE(f.put(OwnedKey("a", 2), 64));
  REQUIRE(f.put(OwnedKey("a", 7), 64));
  uses = uses_of(f);
  CHECK(uses[2].fair_bytes == kArena / 4 * 3);
  CHECK(uses[7].fair_bytes == kArena / 4);
  CHECK(uses[7].weight == 1);
  CHECK(uses[7].quota_bytes == kArena);
}

TEST_CASE("hits and misses are counted for who asked, also of a tenant that holds nothing") {
  StoreFixture f(kArena, with_quotas());
  REQUIRE(f.put(OwnedKey("a", 1), 64));
  CHECK(f.has(OwnedKey("a", 1)));
  CHECK_FALSE(f.has(OwnedKey("b", 1)));
  CHECK(f.has(OwnedKey("a", 1)));
  for (int i = 0; i < 3; ++i) CHECK_FALSE(f.has(OwnedKey("a", 9)));
  CHECK(f.store->exists(OwnedKey("a", 1), 0, f.now) == 64);
  CHECK(f.store->exists(OwnedKey("a", 9), 0, f.now) == 0);
  CHECK(f.store->exists(OwnedKey("b", 9), 0, f.now) == 0);
  auto uses = uses_of(f);
  CHECK(uses[1].tally.reads == 2);
  CHECK(uses[1].tally.read_misses == 1);
  CHECK(uses[1].tally.exists_hits == 1);
  CHECK(uses[1].tally.exists_misses == 0);
  CHECK(uses[9].tally.reads == 0);
  CHECK(uses[9].tally.read_misses == 3);
  CHECK(uses[9].tally.exists_misses == 2);
  CHECK(uses[9].tally.objects == 0);
}

TEST_CASE("evictions are counted for whose objects left") {
  StoreFixture f(kArena, with_quotas());
  for (int i = 0; i < 16; ++i) REQUIRE(f.put(OwnedKey(std::to_string(i), 1), 1024));
  REQUIRE(f.put(OwnedKey("one more", 1), 1024));  // beyond its quota
  auto uses = uses_of(f);
  CHECK(uses[1].tally.evicted == 1);
  CHECK(uses[1].tally.evicted_bytes == 1024);
  CHECK(uses[1].tally.objects == 16);
  for (int i = 0; i < 12; ++i) REQUIRE(f.put(OwnedKey(std::to_string(i), 2), 4096));
  REQUIRE(f.put(OwnedKey("one more", 2), 4096));
  uses = uses_of(f);
  CHECK(uses[1].tally.evicted + uses[2].tally.evicted == f.store->stats().evicted);
  CHECK(uses[1].tally.evicted_bytes + uses[2].tally.evicted_bytes ==
        f.store->stats().evicted_bytes);
}

TEST_CASE("of more tenants than accounts those stay that hold something or are configured") {
  StoreConfig config = with_quotas();
  config.tenants_max = 4;
  StoreFixture f(kArena, config);
  REQUIRE(f.put(OwnedKey("a", 3), 64));
  for (std::uint64_t tenant = 10; tenant < 30; ++tenant) {
    CHECK_FALSE(f.has(OwnedKey("a", tenant)));
    auto uses = uses_of(f);
    CHECK(uses.size() == 4);
    CHECK(uses[3].tally.objects == 1);
    CHECK(uses[2].weight == 3);
    CHECK(uses[tenant].tally.read_misses == 1);
  }
  REQUIRE(f.put(OwnedKey("a", 4), 64));
  // Nobody can be told about this one, and nothing else is wrong with that.
  CHECK_FALSE(f.has(OwnedKey("a", 5)));
  CHECK(f.begin(OwnedKey("a", 5), 64).start == WriteStart::too_many_tenants);
  CHECK(uses_of(f).count(5) == 0);
  CHECK(f.store->remove(OwnedKey("a", 4), f.now));
  REQUIRE(f.put(OwnedKey("a", 5), 64));
  CHECK(uses_of(f)[5].tally.objects == 1);
  CHECK(f.store->stats().read_misses == 21);
}

}  // namespace
}  // namespace simm::store::testing
