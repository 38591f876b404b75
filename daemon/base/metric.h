// Metric: what a counter means to those who read it. It stands where the counter is declared
// (daemon/base/counter_group.h); the metrics page and the list in OBSERVABILITY.md are made of it.
// Thread: any (constant).
#pragma once

#include <cstdint>
#include <string_view>

namespace simm::base {

struct Metric {
  // What a metric that ends with "_total" counts only grows. What ends with "_seconds" is counted
  // in nanoseconds and shown in seconds. All others are gauges, shown as they are.
  std::string_view name;
  std::string_view help = {};    // in the first counter of a metric
  std::string_view labels = {};  // behind those of the group, "op=get,result=hit"

  // The part of a histogram that the counter is: the number of a bucket, or one of these.
  static constexpr std::uint8_t kWhole = 0xff;  // it is none: the counter is the metric
  static constexpr std::uint8_t kSum = 0xfe;
  std::uint8_t part = kWhole;
};

}  // namespace simm::base
