// MetricsText: numbers in the text exposition format of Prometheus, version 0.0.4: families one
// after the other, each with its HELP and TYPE, then its samples. What may come from outside (label
// values) is escaped, so nothing can forge a sample.
//
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
// Thread: control.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "daemon/base/histogram.h"

namespace simm::control {

enum class MetricType : std::uint8_t { counter, gauge, histogram };

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

inline constexpr double kNsInSecond = 1e9;  // dividing by it rounds once

struct MetricLabel {
  std::string_view name;
  std::string_view value;
};

// One after the other as they stand between the braces: `a="1",b="x\"y"`; empty: none.
std::string label_text(std::initializer_list<MetricLabel> labels);
void append_label(std::string& text, std::string_view name, std::string_view value);

// The shortest decimal that reads back as the same number; "+Inf", "-Inf", "NaN".
void append_number(std::string& text, double value);

class MetricsText {
public:
  // Everything until the next call belongs to this family. Each name once, its samples together.
  void family(std::string_view name, MetricType type, std::string_view help);

  // Of the family that was begun last. `labels` is a label_text().
  void sample(std::string_view labels, std::uint64_t value);
  void sample(std::string_view labels, double value);
  void sample(std::initializer_list<MetricLabel> labels, std::uint64_t value) {
    sample(label_text(labels), value);
  }
  // A family of one sample.
  void gauge(std::string_view name, std::uint64_t value, std::string_view help) {
    family(name, MetricType::gauge, help);
    sample("", value);
  }

  // Durations in powers of two of nanoseconds (base::Histogram), as seconds. The count is that of
  // the buckets, so that the buckets of one text always fit together.
  using Log2Buckets = std::array<std::uint64_t, base::Histogram::kBuckets>;
  void histogram(std::string_view labels, const Log2Buckets& buckets, std::uint64_t sum_ns);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::string take() noexcept { return std::move(text_); }
  void reserve(std::size_t bytes) { text_.reserve(bytes); }

private:
  void begin(std::string_view suffix, std::string_view labels, std::string_view more = {});

  std::string text_;
  std::string name_;
};

}  // namespace simm::control
