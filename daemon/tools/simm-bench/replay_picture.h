// The replay as a picture of text: hit rate and throughput over time, and how long fetches took.
// Thread: any; plain values.
#pragma once

#include <string>
#include <vector>

#include "daemon/tools/simm-bench/replay_summary.h"

namespace simm::bench {

// One bar of eight heights for each value, the highest where the value is `top` or more.
std::string bars_of(const std::vector<double>& values, double top);

// A few lines for each model; nothing for one without samples.
std::string replay_picture(const std::vector<ReplaySummary>& summaries);

}  // namespace simm::bench
