// What the reuse policy makes of traffic that nobody tuned it for, beside plain age. The generators
// are small relatives of what was measured; the seed is fixed, SIMM_SEED takes another one.
#include "tests/workloads/policy_workload.h"

#include <cstdlib>

namespace simm::store::testing {

namespace {

std::uint64_t workload_seed() {
  const char* text = std::getenv("SIMM_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

// In points of hits.
void check_loss(const PolicyWorkload& workload, double part, double points_max) {
  const double age = workload.hits(EvictionKind::lru, part);
  const double reuse = workload.hits(EvictionKind::reuse, part);
  CAPTURE(workload_seed());
  CAPTURE(part);
  CAPTURE(age);
  CAPTURE(reuse);
  CHECK(reuse >= age - points_max);
}

}  // namespace

TEST_CASE("a tenant whose prompts go round in a loop costs another one no hits") {
  PolicyWorkload w(workload_seed());
  w.chat(0, 7200, 1.2, 90, 0.6, 1);
  w.loop(0, 3500, 12, 8, 2, false);
  w.sort();
  check_loss(w, 0.05, 2);
  check_loss(w, 0.10, 2);
}

TEST_CASE("a loop longer than the store: no worse than least recently used") {
  PolicyWorkload w(workload_seed());
  w.chat(0, 3600, 1.5, 90);
  w.loop(300, 4000, 8, 10, 1, true);
  w.sort();
  check_loss(w, 0.05, 1);
  check_loss(w, 0.10, 1);
}

TEST_CASE("pages that come back after exactly a quarter of an hour teach nothing wrong for long") {
  PolicyWorkload w(workload_seed());
  w.chat(0, 7200, 1.5, 90);
  w.returning(7200, 5, 50, 900);
  w.sort();
  check_loss(w, 0.10, 1);
}

TEST_CASE("slow users give way to fast ones: no worse than least recently used") {
  PolicyWorkload w(workload_seed());
  w.chat(0, 7200, 1.0, 900, 0.75);
  w.chat(7200, 12'000, 2.5, 30);
  w.sort();
  check_loss(w, 0.01, 1);
}

TEST_CASE("what is better than age is not given up: unread puts beside a conversation") {
  PolicyWorkload w(workload_seed());
  w.chat(0, 3600, 1.2, 90);
  w.returning(3600, 0.1, 8, 1e9);
  w.sort();
  check_loss(w, 0.05, -1);  // it is better by that at least
}

TEST_CASE("after two hours of jobs that come back at once a conversation is soon served by age") {
  PolicyWorkload w(workload_seed());
  w.burst(7200, 2, 20);
  w.chat(7200, 7200 + 1200, 1.2, 90);
  w.sort();
  check_loss(w, 0.05, 3);
}

TEST_CASE("an account that another tenant gets begins with nothing learned") {
  StoreConfig config = StoreFixture::quiet();
  config.tenants_max = 1;
  StoreFixture f(8 * 64, config);
  for (std::uint64_t tenant = 1; tenant <= 3; ++tenant) {
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 8; ++i) {
        f.now += kSecond;
        REQUIRE(f.put(OwnedKey("k" + std::to_string(i), tenant), 64));
      }
    }
    f.now += kSecond;
    REQUIRE(f.put(OwnedKey("one more", tenant), 64));
    CHECK_FALSE(f.has(OwnedKey("k0", tenant)));
    for (int i = 1; i < 8; ++i) {
      CHECK(f.store->remove(OwnedKey("k" + std::to_string(i), tenant), f.now));
    }
    CHECK(f.store->remove(OwnedKey("one more", tenant), f.now));
    f.audit();
  }
}

}  // namespace simm::store::testing
