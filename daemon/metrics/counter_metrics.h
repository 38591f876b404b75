// CounterMetrics: the counters of a daemon as metrics, by the table (metric_table.h). What is shown
// under which name is decided once for each; after that writing them costs reading each counter
// once and some characters.
//
// The counters' writers do not notice: each value is read untorn by one relaxed load.
// Owned by the MetricsPage. Thread: control.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/metrics/metric_table.h"

namespace simm::control {

class CounterMetrics {
public:
  explicit CounterMetrics(const base::CounterSet& counters);

  void write(MetricsText& text);

private:
  struct Sample {
    std::string labels;
    base::Counter counter;
  };
  struct HistogramPart {
    std::size_t bucket;  // kSum: the sum
    base::Counter counter;
  };
  static constexpr std::size_t kSum = base::Histogram::kBuckets;
  struct Family {
    const MetricRow* row = nullptr;
    std::vector<Sample> samples;
    std::map<std::string, std::vector<HistogramPart>> histograms;  // by labels
  };

  void bind(std::string_view name, const base::Counter& counter);
  void write(MetricsText& text, const Family& family) const;

  const base::CounterSet& counters_;
  std::uint32_t bound_ = 0;          // counters that have their place
  std::vector<Family> families_;     // in the order of the table; the last one is of no row
  std::vector<std::size_t> of_row_;  // index into families_
};

}  // namespace simm::control
