// CounterMetrics: the counters of a daemon as metrics, as each was declared (base::Metric). What is
// shown under which name is decided once for each; after that writing them costs reading each
// counter once and some characters. A counter without a metric is shown as simm_other, and a test
// finds it.
//
// The counters' writers do not notice: each value is read untorn by one relaxed load.
// Owned by the MetricsPage. Thread: control.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/metrics/metrics_text.h"

namespace simm::control {

class CounterMetrics {
public:
  explicit CounterMetrics(const base::CounterSet& counters) : counters_(counters) {}

  void write(MetricsText& text);

private:
  struct Sample {
    std::string labels;
    base::Counter counter;
  };
  struct HistogramPart {
    std::uint8_t part;  // as of base::Metric
    base::Counter counter;
  };
  // A metric: what its counters have in common.
  struct Family {
    std::string_view name;
    std::string_view help;
    std::vector<Sample> samples;
    std::map<std::string, std::vector<HistogramPart>> histograms;  // by labels
  };

  void bind(std::string_view name, const base::Counter& counter,
            const base::CounterSet::Meaning& meaning);
  Family& family_of(const base::Metric& metric);
  static void write(MetricsText& text, const Family& family);

  const base::CounterSet& counters_;
  std::uint32_t bound_ = 0;                        // counters that have their place
  std::vector<Family> families_;                   // in the order in which they were met first
  std::map<std::string_view, std::size_t> index_;  // into families_, by name
};

}  // namespace simm::control
