#include "daemon/tools/simm-bench/trace_generator.h"

#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "daemon/tools/simm-bench/trace_statistics.h"

namespace simm::bench::trace_generator_test {

std::string text_of(const Trace& trace) {
  std::ostringstream text;
  write_trace(text, trace);
  return text.str();
}

TEST_CASE("the same seed makes the same trace, another seed another one") {
  const std::string first = text_of(generate_trace({7, 500}));
  CHECK(text_of(generate_trace({7, 500})) == first);
  CHECK(text_of(generate_trace({8, 500})) != first);
}

TEST_CASE("a shorter trace is the beginning of a longer one") {
  const Trace shorter = generate_trace({3, 200});
  const Trace longer = generate_trace({3, 400});
  REQUIRE(shorter.size() == 200);
  REQUIRE(longer.size() == 400);
  CHECK(text_of(Trace(longer.begin(), longer.begin() + 200)) == text_of(shorter));
}

TEST_CASE("a generated trace obeys the rules of the format") {
  const Trace trace = generate_trace({11, 3'000});
  std::istringstream stream(text_of(trace));
  CHECK(read_trace(stream, "generated"));
  std::set<std::uint64_t> seen;
  for (const TraceRequest& request : trace) {
    const std::uint64_t blocks = (request.input_tokens + kTraceBlockTokens - 1) / kTraceBlockTokens;
    CHECK(request.block_ids.size() == blocks);
    CHECK(request.block_ids.front() == 0);
    // What is shared is a leading part: behind a new block everything is new.
    bool fresh = false;
    for (const std::uint64_t id : request.block_ids) {
      const bool is_new = seen.insert(id).second;
      CHECK((is_new || !fresh));
      fresh = fresh || is_new;
    }
  }
}

// The figures of the published trace (TRACE.md), with the spread that seeds have around them.
TEST_CASE("statistics are like those of the real trace") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    CAPTURE(seed);
    const TraceStatistics s = statistics_of(generate_trace({seed, 12'031}));
    CHECK(s.duration_s == doctest::Approx(3'537).epsilon(0.08));
    CHECK(s.input_tokens.mean == doctest::Approx(12'035).epsilon(0.10));
    CHECK(s.input_tokens.at[2] == doctest::Approx(6'909).epsilon(0.12));
    CHECK(s.output_tokens.mean == doctest::Approx(343).epsilon(0.05));
    CHECK(s.blocks == doctest::Approx(288'500).epsilon(0.10));
    CHECK(s.unique_blocks == doctest::Approx(182'790).epsilon(0.08));
    CHECK(s.continuing == doctest::Approx(0.387).epsilon(0.06));
    CHECK(s.best_hit_rate == doctest::Approx(0.366).epsilon(0.10));
    CHECK(s.reuse_distance.at[2] == doctest::Approx(8'357).epsilon(0.15));
    CHECK(s.lru_hit_rate[0] == doctest::Approx(0.052).epsilon(0.15));
    CHECK(s.lru_hit_rate[2] == doctest::Approx(0.195).epsilon(0.20));
    CHECK(s.lru_hit_rate[4] == doctest::Approx(0.345).epsilon(0.15));
  }
}

}  // namespace simm::bench::trace_generator_test
