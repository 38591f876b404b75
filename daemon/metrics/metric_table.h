// The table of all metrics that are made of counters (daemon/base/counters.h): which counters make
// a metric, what it is called, its unit and labels, and what it means. A counter that no row names
// is shown as simm_other, and a test finds it.
//
// A pattern is a counter's name in which '*' stands for the rest of a dotted part
// ("engine.*.pages", "cluster.links.lost_*"); what it stands for becomes the value of a label. Of a
// histogram it is the name without ".log2_NN" and ".sum". Rows of one metric stand together.
// Thread: any (constant).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/metrics/metrics_text.h"

namespace simm::control {

enum class MetricUnit : std::uint8_t {
  as_is,
  ns,  // counted in nanoseconds, shown in seconds
};

struct MetricRow {
  std::string_view pattern;
  std::string_view metric;
  MetricType type;
  // Names of the labels of the stars, in their order, then fixed ones: "agent,result,op=get". The
  // values of a star without a name ("-") are added up: histograms are of all data agents.
  std::string_view labels;
  MetricUnit unit;
  std::string_view help;  // in the first row of a metric
};

std::span<const MetricRow> metric_rows();

// Whether `name` fits `pattern`; then the parts that the stars stand for are in `stars` (at most
// kStarsMax).
inline constexpr std::size_t kStarsMax = 4;
struct PatternMatch {
  std::size_t count = 0;
  std::array<std::string_view, kStarsMax> stars;
};
bool matches(std::string_view pattern, std::string_view name, PatternMatch& match);

}  // namespace simm::control
