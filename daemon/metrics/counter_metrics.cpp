#include "daemon/metrics/counter_metrics.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace simm::control {
namespace {

constexpr std::string_view kBucketMark = ".log2_";
constexpr std::string_view kSumMark = ".sum";

constexpr MetricRow kOther = {"", "simm_other",      MetricType::gauge,
                              "", MetricUnit::as_is, "Counters that have no name as a metric yet."};

// The part of a histogram that a counter is: its base name and the bucket.
struct Part {
  std::string_view histogram;
  std::size_t bucket = 0;
};

std::optional<Part> histogram_part(std::string_view name) {
  constexpr std::size_t kSum = base::Histogram::kBuckets;
  const std::size_t mark = name.rfind(kBucketMark);
  if (mark != std::string_view::npos) {
    const std::string_view digits = name.substr(mark + kBucketMark.size());
    std::size_t bucket = kSum;
    std::from_chars(digits.data(), digits.data() + digits.size(), bucket);
    if (bucket >= kSum) return std::nullopt;
    return Part{name.substr(0, mark), bucket};
  }
  if (name.size() > kSumMark.size() && name.substr(name.size() - kSumMark.size()) == kSumMark) {
    return Part{name.substr(0, name.size() - kSumMark.size()), kSum};
  }
  return std::nullopt;
}

std::string labels_of(const MetricRow& row, const PatternMatch& match) {
  std::string text;
  std::size_t star = 0;
  std::string_view rest = row.labels;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view label = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (const std::size_t equals = label.find('='); equals != std::string_view::npos) {
      append_label(text, label.substr(0, equals), label.substr(equals + 1));
    } else if (star < match.count) {
      const std::string_view value = match.stars[star++];
      if (label != "-") append_label(text, label, value);
    }
  }
  return text;
}

}  // namespace

CounterMetrics::CounterMetrics(const base::CounterSet& counters) : counters_(counters) {
  for (const MetricRow& row : metric_rows()) {
    const bool goes_on = !families_.empty() && families_.back().row->metric == row.metric;
    if (!goes_on) families_.emplace_back().row = &row;
    of_row_.push_back(families_.size() - 1);
  }
  families_.emplace_back().row = &kOther;
}

void CounterMetrics::bind(std::string_view name, const base::Counter& counter) {
  const std::optional<Part> part = histogram_part(name);
  for (std::size_t i = 0; i < metric_rows().size(); ++i) {
    const MetricRow& row = metric_rows()[i];
    const bool is_histogram = row.type == MetricType::histogram;
    if (is_histogram && !part) continue;
    PatternMatch match;
    if (!matches(row.pattern, is_histogram ? part->histogram : name, match)) continue;
    Family& family = families_[of_row_[i]];
    if (is_histogram) {
      family.histograms[labels_of(row, match)].push_back({part->bucket, counter});
    } else {
      family.samples.push_back({labels_of(row, match), counter});
    }
    return;
  }
  families_.back().samples.push_back({label_text({{"name", name}}), counter});
}

void CounterMetrics::write(MetricsText& text) {
  bound_ = counters_.each_since(
      bound_, [this](std::string_view name, const base::Counter& counter) { bind(name, counter); });
  for (const Family& family : families_) write(text, family);
}

void CounterMetrics::write(MetricsText& text, const Family& family) const {
  if (family.samples.empty() && family.histograms.empty()) return;
  text.family(family.row->metric, family.row->type, family.row->help);
  for (const Sample& sample : family.samples) {
    if (family.row->unit == MetricUnit::ns) {
      text.sample(sample.labels, static_cast<double>(sample.counter.value()) / kNsInSecond);
    } else {
      text.sample(sample.labels, sample.counter.value());
    }
  }
  for (const auto& [labels, parts] : family.histograms) {
    MetricsText::Log2Buckets buckets{};
    std::uint64_t sum_ns = 0;
    for (const HistogramPart& part : parts) {
      (part.bucket == kSum ? sum_ns : buckets[part.bucket]) += part.counter.value();
    }
    text.histogram(labels, buckets, sum_ns);
  }
}

}  // namespace simm::control
