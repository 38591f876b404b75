#include "daemon/tools/simm-bench/cache_simulation.h"

#include <doctest/doctest.h>

#include "daemon/tools/simm-bench/trace_generator.h"
#include "daemon/tools/simm-bench/trace_statistics.h"

namespace simm::bench::testing {

namespace {

TraceRequest simulated_request(std::uint64_t at_s, std::vector<std::uint64_t> blocks) {
  TraceRequest request;
  request.timestamp_ms = at_s * 1000;
  request.block_ids = std::move(blocks);
  return request;
}

}  // namespace

TEST_CASE("a simulated cache: what does not fit is a miss, a prefix ends at the first one") {
  const Trace trace = {simulated_request(0, {1, 2, 3}), simulated_request(5, {4}),
                       simulated_request(10, {1, 2, 3})};
  const CacheSimulation simulation(trace);
  CHECK(simulation.lookups() == 7);
  CHECK(simulation.unique_blocks() == 4);
  const auto all = simulation.run(store::EvictionKind::lru, 4);
  REQUIRE(all.has_value());
  CHECK(all->blocks == 3);
  CHECK(all->prefix == 3);
  // Used from the last to the first: block 3 is the oldest and makes room for 4.
  const auto tail_lost = simulation.run(store::EvictionKind::lru, 3);
  REQUIRE(tail_lost.has_value());
  CHECK(tail_lost->blocks == 2);
  CHECK(tail_lost->prefix == 2);
  CHECK(simulation.optimal_hits(3) == 3);  // it does not keep 4
  CHECK(simulation.optimal_hits(2) == 2);
}

TEST_CASE("used from the head on a prefix loses its head, unless depths are told") {
  const Trace trace = {simulated_request(0, {1, 2, 3}), simulated_request(5, {4}),
                       simulated_request(10, {1, 2, 3})};
  const CacheSimulation simulation(trace);
  for (const auto kind : {store::EvictionKind::lru, store::EvictionKind::reuse}) {
    CHECK(simulation.run(kind, 3, {true, false})->prefix == 0);
    CHECK(simulation.run(kind, 3, {true, true})->prefix == 2);
    CHECK(simulation.run(kind, 3, {false, true})->prefix == 2);
  }
}

TEST_CASE(
    "on conversations the reuse policy is never behind LRU and FIFO, nor before the optimum") {
  const Trace trace = generate_trace({});
  const CacheSimulation simulation(trace);
  int clearly_better = 0;
  for (const double part : kCacheParts) {
    const auto blocks =
        static_cast<std::uint32_t>(part * static_cast<double>(simulation.unique_blocks()));
    // Of the look-ups that a cache without limit hits.
    const auto rate = [&](std::uint64_t hits) {
      return static_cast<double>(hits) /
             static_cast<double>(simulation.lookups() - simulation.unique_blocks());
    };
    const auto reuse = simulation.run(store::EvictionKind::reuse, blocks);
    const auto lru = simulation.run(store::EvictionKind::lru, blocks);
    const auto fifo = simulation.run(store::EvictionKind::fifo, blocks);
    REQUIRE((reuse && lru && fifo));
    CAPTURE(part);
    CHECK(rate(reuse->prefix) > rate(lru->prefix) - 0.002);
    CHECK(rate(reuse->prefix) > rate(fifo->prefix) - 0.002);
    CHECK(reuse->prefix <= reuse->blocks);
    CHECK(reuse->blocks <= simulation.optimal_hits(blocks));
    // 5.8, 5.5 and 0.9 points at 1, 2 and 5 %. The third was 2.4 before the policy gave way to LRU
    // where LRU does better for a while.
    clearly_better += rate(reuse->prefix) > rate(lru->prefix) + 0.008 ? 1 : 0;
  }
  CHECK(clearly_better >= 3);
}

}  // namespace simm::bench::testing
