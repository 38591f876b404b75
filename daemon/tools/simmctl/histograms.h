// Histograms among counters, for people: the counters "<name>.log2_00" .. "<name>.log2_39" and
// "<name>.sum" (daemon/base/histogram.h) become one line "<name>": how many, and the upper edges of
// the buckets of the median, of the 99th percentile and of the largest, in microseconds.
// Thread: any.
#pragma once

#include <nlohmann/json.hpp>

namespace simm::ctl {

// An object of counters; what is no part of a histogram stays as it is.
nlohmann::ordered_json with_histograms(const nlohmann::ordered_json& counters);

}  // namespace simm::ctl
