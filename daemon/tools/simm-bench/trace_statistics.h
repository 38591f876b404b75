// What a trace asks of a cache: lengths, sharing, reuse distances and the best possible hit rate.
//
// Blocks are looked up as an engine does: in the order of the prompt. A block is a hit when it was
// seen before (equal ids have equal prefixes, so hits are a leading part of a request). The reuse
// distance of a hit is the number of distinct other blocks since its last use (Mattson et al.,
// "Evaluation techniques for storage hierarchies", 1970): a least-recently-used cache of N blocks
// hits exactly those with a distance below N. Counted with Fenwick's tree, O(n log n).
// Thread: any; no shared state.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/trace.h"

namespace simm::bench {

// The ranks at which distributions are reported.
inline constexpr std::array kReportedRanks = {0.10, 0.25, 0.50, 0.75, 0.90, 0.99};

struct Distribution {
  double mean = 0;
  std::array<double, kReportedRanks.size()> at{};  // values at kReportedRanks
};

Distribution distribution_of(std::vector<double> values);

// Cache sizes, as parts of the unique blocks, for which the LRU hit rate is reported.
inline constexpr std::array kCacheParts = {0.01, 0.02, 0.05, 0.10, 0.20, 0.50};

struct TraceStatistics {
  std::uint64_t requests = 0;
  double duration_s = 0;
  Distribution input_tokens;
  Distribution output_tokens;
  Distribution blocks_per_request;
  std::uint64_t blocks = 0;  // all, with repetition
  std::uint64_t unique_blocks = 0;
  double used_once = 0;         // part of the unique blocks that is never used again
  std::uint64_t uses_max = 0;   // of the most used block but the one that starts every request
  double continuing = 0;        // part of the requests that share more than their first block
  Distribution shared_blocks;   // of those requests: leading blocks seen before
  Distribution reuse_distance;  // blocks
  double best_hit_rate = 0;     // hits of a cache that forgets nothing / blocks
  std::array<double, kCacheParts.size()> lru_hit_rate{};
};

TraceStatistics statistics_of(const Trace& trace);

// One row per figure and one column per trace, as a Markdown table.
struct NamedStatistics {
  std::string name;
  TraceStatistics statistics;
};
std::string statistics_table(const std::vector<NamedStatistics>& columns);

}  // namespace simm::bench
