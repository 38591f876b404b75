// What the policies make of traffic that nobody tuned them for, beside plain age. The seed is
// fixed, SIMM_SEED takes another one.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "daemon/tools/simm-bench/policy_benchmark.h"
#include "daemon/tools/simm-bench/policy_replay.h"
#include "daemon/tools/simm-bench/policy_workloads.h"
#include "tests/support/number_from.h"

namespace simm::bench::testing {

namespace {

std::uint64_t workload_seed() {
  return test_support::number_from("SIMM_SEED", 1);
}

// A size of the cache that says most about a workload, and the hits of `reuse` in percent when it
// was written down. A change may cost 0.3 points, which is nowhere more than a point below least
// recently used.
struct Limit {
  const char* workload;
  double part;
  double hits;
};
constexpr Limit kLimits[] = {
    {"agents", 0.01, 74.2},
    {"rag_0.7", 0.05, 46.5},
    {"rag_0.9", 0.2, 73.7},
    {"rag_1.1", 0.5, 87.7},
    {"chat_in_batch", 0.05, 59.2},
    {"diurnal", 0.005, 34.0},
    {"loop", 0.2, 48.2},
    {"loop_beside_chat", 0.05, 33.0},
    {"new_popular_set", 0.1, 70.9},
    {"all_keys_new", 0.05, 62.0},
    {"slow_then_fast", 0.1, 57.9},
    {"mixed_sizes", 0.1, 47.8},
    {"ranks", 0.1, 53.5},
    {"polls_and_unread", 0.02, 36.5},
    {"two_tenants", 0.1, 60.3},
    {"two_tenants_chat", 0.1, 57.9},
    {"probed_junk", 0.1, 43.8},
    {"poisoned", 0.1, 62.0},
    {"burst_then_chat", 0.2, 57.4},
};

const PolicyWorkload& workload_of(std::string_view name) {
  for (const PolicyWorkload& one : policy_workloads()) {
    if (one.name == name) return one;
  }
  FAIL("no such workload");
  return policy_workloads().front();
}

}  // namespace

TEST_CASE("no workload hits less than it did") {
  CHECK(std::size(kLimits) == policy_workloads().size());
  for (const Limit& limit : kLimits) {
    CAPTURE(std::string(limit.workload));
    const PolicyReplay replay(workload_of(limit.workload).traffic(1, 1));
    const auto reuse = replay.hits(store::EvictionKind::reuse, limit.part);
    REQUIRE(reuse.has_value());
    CHECK(100 * *reuse >= limit.hits - 0.3);
  }
}

TEST_CASE("the long form: no size of the cache is more than a point below least recently used") {
  if (test_support::rounds_from("SIMM_ROUNDS", 1) < 10) return;
  for (std::uint64_t seed = workload_seed(); seed < workload_seed() + 3; ++seed) {
    for (const PolicyWorkload& one : policy_workloads()) {
      const PolicyReplay replay(one.traffic(seed, 1));
      for (const double part : policy_cache_parts()) {
        const auto age = replay.hits(store::EvictionKind::lru, part);
        const auto reuse = replay.hits(store::EvictionKind::reuse, part);
        REQUIRE((age && reuse));
        CAPTURE(seed);
        CAPTURE(std::string(one.name));
        CAPTURE(part);
        CAPTURE(*age);
        CHECK(*reuse >= *age - 0.01);
      }
    }
  }
}

}  // namespace simm::bench::testing
