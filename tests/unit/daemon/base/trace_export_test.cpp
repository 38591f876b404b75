#include "daemon/base/trace_export.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

namespace trace_export_test {

using namespace simm::base;

constexpr TraceParent kParent = {0x0af7651916cd43dd, 0x8448eb211c80319c, 0xb7ad6b7169203331};

TEST_CASE("a tenant has so many traces in a second, whatever clients ask for") {
  TraceAllowance allowance;
  TimeNs now_ns = 5 * kNsPerSecond;
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += allowance.take(10, now_ns) ? 1 : 0;
  CHECK(taken == 10);
  // A flood that goes on for ten seconds more has ten in each of them.
  for (int i = 0; i < 10'000; ++i) {
    now_ns += kNsPerMs;
    taken += allowance.take(10, now_ns) ? 1 : 0;
  }
  CHECK(taken == 110);
  // What was not used is not saved up.
  now_ns += 100 * kNsPerSecond;
  taken = 0;
  for (int i = 0; i < 1000; ++i) taken += allowance.take(10, now_ns) ? 1 : 0;
  CHECK(taken == 10);
}

TEST_CASE("an operation of a trace is chosen, and keeps its trace") {
  TraceExport exported({0, 100, 7});
  TraceAllowance allowance;
  TraceParent parent = kParent;
  REQUIRE(exported.choose(parent, allowance, kNsPerSecond));
  CHECK(parent.trace_high == kParent.trace_high);
  CHECK(parent.trace_low == kParent.trace_low);
  CHECK(parent.span == kParent.span);
  // Of the others none is.
  for (int i = 0; i < 100'000; ++i) REQUIRE(exported.passes_over());
  CHECK(exported.over_rate == 0);
}

// By itself: whatever was chosen before says nothing of the next one.
TEST_CASE("how many are passed over has the geometric distribution") {
  constexpr int kOneIn = 10;
  for (const std::uint64_t seed : {1ULL, 4711ULL, ~0ULL}) {
    CAPTURE(seed);
    TraceExport exported({kOneIn, 1'000'000, seed});
    TraceAllowance allowance;
    std::array<int, 64> of_distance{};
    constexpr TimeNs kDraws = 50'000;
    int longest = 0;
    TimeNs drawn = 0;
    for (int distance = 1; drawn < kDraws; ++distance) {
      if (exported.passes_over()) continue;
      TraceParent parent;
      REQUIRE(exported.choose(parent, allowance, (drawn + 1) * kNsPerMs));
      ++of_distance[static_cast<std::size_t>(std::min(distance, 63))];
      longest = std::max(longest, distance);
      distance = 0;
      ++drawn;
    }
    CHECK(longest > 5 * kOneIn);
    CHECK(longest < 30 * kOneIn);
    double chance = 1.0 / kOneIn;
    for (std::size_t distance = 1; distance <= 20; ++distance, chance *= 1 - 1.0 / kOneIn) {
      CAPTURE(distance);
      const double expected = static_cast<double>(kDraws) * chance;
      CHECK(std::abs(of_distance[distance] - expected) < 5 * std::sqrt(expected));
    }
  }
  TraceExport every({1, 1'000'000, 7});
  TraceAllowance allowance;
  for (TimeNs i = 1; i < 100; ++i) {
    TraceParent parent;
    REQUIRE_FALSE(every.passes_over());
    REQUIRE(every.choose(parent, allowance, i * kNsPerMs));
  }
}

TEST_CASE("of the others one of so many is, with a trace of its own") {
  TraceExport exported({100, 10'000, 4711});
  std::set<std::uint64_t> ids;
  std::set<std::uint64_t> traces;
  std::size_t chosen = 0;
  TimeNs now_ns = kNsPerSecond;
  TraceAllowance allowance;
  for (int i = 0; i < 100'000; ++i) {
    now_ns += kNsPerMs;
    TraceParent parent;
    if (exported.passes_over()) continue;
    REQUIRE(exported.choose(parent, allowance, now_ns));
    ++chosen;
    CHECK(parent.span == 0);
    traces.insert(parent.trace_high);
    traces.insert(parent.trace_low);
    ids.insert(exported.new_id());
  }
  CHECK(chosen > 800);
  CHECK(chosen < 1200);
  CHECK(ids.size() == chosen);
  CHECK(traces.size() == 2 * chosen);
  CHECK(ids.count(0) == 0);
}

TEST_CASE("what has no room is counted, and so is what is above the rate") {
  TraceExport exported({1, 10'000, 1});
  const ExportedTrace trace{};
  for (std::size_t i = 0; i < TraceExport::kTracesAhead + 3; ++i) exported.push(trace);
  CHECK(exported.no_room == 3);
  TraceExport slow({1, 1, 1});
  TraceAllowance allowance;
  TraceParent parent = kParent;
  CHECK(slow.choose(parent, allowance, kNsPerSecond));
  CHECK_FALSE(slow.choose(parent, allowance, kNsPerSecond));
  CHECK(slow.over_rate == 1);
}

}  // namespace trace_export_test
