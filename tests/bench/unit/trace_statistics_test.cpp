#include "daemon/tools/simm-bench/trace_statistics.h"

#include <doctest/doctest.h>

#include <list>

#include "daemon/tools/simm-bench/trace_generator.h"

namespace simm::bench::trace_statistics_test {

TEST_CASE("a small trace, by hand") {
  Trace trace;
  trace.push_back({0, 1'000, 10, {0, 1}});
  trace.push_back({1'000, 1'000, 20, {0, 2}});
  trace.push_back({5'000, 1'500, 30, {0, 1, 3}});
  const TraceStatistics s = statistics_of(trace);
  CHECK(s.requests == 3);
  CHECK(s.duration_s == 5);
  CHECK(s.blocks == 7);
  CHECK(s.unique_blocks == 4);
  CHECK(s.used_once == 0.5);
  CHECK(s.uses_max == 2);
  CHECK(s.continuing == doctest::Approx(1.0 / 3));
  CHECK(s.shared_blocks.mean == 2);
  // Block 0 again after {1}, again after {2}; block 1 again after {2, 0}.
  CHECK(s.best_hit_rate == doctest::Approx(3.0 / 7));
  CHECK(s.reuse_distance.mean == doctest::Approx((1 + 1 + 2) / 3.0));
}

// An LRU list run for real, to check what is derived from reuse distances.
double lru_hit_rate(const Trace& trace, std::size_t capacity) {
  std::list<std::uint64_t> recent;
  std::size_t hits = 0;
  std::size_t blocks = 0;
  for (const TraceRequest& request : trace) {
    for (const std::uint64_t id : request.block_ids) {
      ++blocks;
      const std::size_t before = recent.size();
      recent.remove(id);
      hits += recent.size() < before;
      recent.push_front(id);
      if (recent.size() > capacity) recent.pop_back();
    }
  }
  return static_cast<double>(hits) / static_cast<double>(blocks);
}

TEST_CASE("hit rates from reuse distances equal those of an LRU list") {
  const Trace trace = generate_trace({5, 150});
  const TraceStatistics s = statistics_of(trace);
  for (std::size_t i = 0; i < kCacheParts.size(); ++i) {
    const double capacity = kCacheParts[i] * static_cast<double>(s.unique_blocks);
    // A part of a block caches as the next whole one does not: distances are whole.
    const auto whole = static_cast<std::size_t>(capacity) +
                       (capacity > static_cast<double>(static_cast<std::size_t>(capacity)));
    CHECK(s.lru_hit_rate[i] == doctest::Approx(lru_hit_rate(trace, whole)));
  }
}

TEST_CASE("the table has one column per trace") {
  const TraceStatistics s = statistics_of(generate_trace({1, 50}));
  const std::string table = statistics_table({{"left", s}, {"right", s}});
  CHECK(table.rfind("| | left | right |\n|---|---|---|\n| requests | 50 | 50 |\n", 0) == 0);
}

}  // namespace simm::bench::trace_statistics_test
