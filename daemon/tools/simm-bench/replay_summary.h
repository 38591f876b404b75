// The figures of a replay and the forms in which they are printed.
// Thread: any; plain values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/replay_course.h"
#include "daemon/tools/simm-bench/replay_tally.h"

namespace simm::bench {

struct ReplaySummary : ReplayTally<std::uint64_t> {
  std::string model;
  std::uint64_t scale = 1;
  std::uint64_t object_bytes = 0;
  std::uint64_t requests = 0;
  std::uint64_t pages = 0;      // of one rank
  std::uint64_t pages_hit = 0;  // of the rank that hit least
  std::uint64_t best_pages_hit = 0;
  std::uint64_t unique_bytes = 0;
  double seconds = 0;
  std::vector<std::uint64_t> fetch_ns;  // one per fetch call of any rank
  std::vector<ReplaySample> samples;    // a few in each second

  [[nodiscard]] double hit_rate() const;
  [[nodiscard]] double best_hit_rate() const;
  nlohmann::json to_json() const;
};

// All models in one: the last line that `simm-bench replay` prints.
nlohmann::json total_of(const std::vector<ReplaySummary>& summaries);

std::string replay_table(const std::vector<ReplaySummary>& summaries);

}  // namespace simm::bench
