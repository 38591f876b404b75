#include "daemon/metrics/counter_metrics.h"

#include <algorithm>

namespace simm::control {
namespace {

constexpr base::Metric kOther = {"simm_other", "Counters that have no name as a metric yet."};

bool ends_with(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// "agent=0,op=get" as it stands between the braces.
std::string labels_of(std::string_view rest) {
  std::string text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::size_t equals = rest.find('=');
    append_label(text, rest.substr(0, equals), rest.substr(equals + 1, comma - equals - 1));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return text;
}

}  // namespace

CounterMetrics::Family& CounterMetrics::family_of(const base::Metric& metric) {
  const auto [found, is_new] = index_.try_emplace(metric.name, families_.size());
  if (is_new) families_.push_back({metric.name, metric.help, {}, {}});
  return families_[found->second];
}

void CounterMetrics::bind(std::string_view name, const base::Counter& counter,
                          const base::CounterSet::Meaning& meaning) {
  if (meaning.metric.name.empty()) {
    return family_of(kOther).samples.push_back({label_text({{"name", name}}), counter});
  }
  Family& family = family_of(meaning.metric);
  const std::string labels = labels_of(meaning.labels);
  if (meaning.metric.part == base::Metric::kWhole) {
    family.samples.push_back({labels, counter});
  } else {
    family.histograms[labels].push_back({meaning.metric.part, counter});
  }
}

void CounterMetrics::write(MetricsText& text) {
  bound_ =
      counters_.each_since(bound_, [this](auto name, const auto& counter, const auto& meaning) {
        bind(name, counter, meaning);
      });
  for (const Family& family : families_) write(text, family);
}

void CounterMetrics::write(MetricsText& text, const Family& family) {
  const MetricType plain =
      ends_with(family.name, "_total") ? MetricType::counter : MetricType::gauge;
  text.family(family.name, family.histograms.empty() ? plain : MetricType::histogram, family.help);
  const bool is_time = ends_with(family.name, "_seconds");
  for (const Sample& sample : family.samples) {
    if (is_time) {
      text.sample(sample.labels, static_cast<double>(sample.counter.value()) / kNsInSecond);
    } else {
      text.sample(sample.labels, sample.counter.value());
    }
  }
  for (const auto& [labels, parts] : family.histograms) {
    MetricsText::Log2Buckets buckets{};
    std::uint64_t sum_ns = 0;
    for (const HistogramPart& part : parts) {
      const bool is_sum = part.part == base::Metric::kSum;
      (is_sum ? sum_ns : buckets[part.part]) += part.counter.value();
    }
    text.histogram(labels, buckets, sum_ns);
  }
}

}  // namespace simm::control
