#include "daemon/metrics/metrics_text.h"

#include <charconv>
#include <cmath>

namespace simm::control {
namespace {

// The edges that are shown, as exponents of two nanoseconds: every power up to half a millisecond,
// where most of the values lie, then every second one up to 17 s. With +Inf 19 buckets.
constexpr std::array<std::size_t, 18> kEdges = {10, 11, 12, 13, 14, 15, 16, 17, 18,
                                                19, 20, 22, 24, 26, 28, 30, 32, 34};

constexpr std::array<std::string_view, 3> kTypeNames = {"counter", "gauge", "histogram"};

void append_integer(std::string& text, std::uint64_t value) {
  std::array<char, 24> digits{};
  const auto [end, failed] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

// `quoted`: in a label value, where quotes end it; else in a HELP line. A reader refuses a whole
// page for one byte that is no UTF-8, so of bytes that are not plain their number is written.
void append_escaped(std::string& text, std::string_view value, bool quoted) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '"' && quoted) {
      text += "\\\"";
    } else if (byte < 0x20 || byte >= 0x7f) {
      text += {'\\', '\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      text += c;
    }
  }
}

}  // namespace

void append_number(std::string& text, double value) {
  if (std::isnan(value)) {
    text += "NaN";
  } else if (std::isinf(value)) {
    text += value > 0 ? "+Inf" : "-Inf";
  } else {
    std::array<char, 32> digits{};
    const auto [end, failed] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    text.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
  }
}

void append_label(std::string& text, std::string_view name, std::string_view value) {
  if (!text.empty()) text += ',';
  text += name;
  text += "=\"";
  append_escaped(text, value, true);
  text += '"';
}

std::string label_text(std::initializer_list<MetricLabel> labels) {
  std::string text;
  for (const MetricLabel& label : labels) append_label(text, label.name, label.value);
  return text;
}

void MetricsText::family(std::string_view name, MetricType type, std::string_view help) {
  name_ = name;
  text_ += "# HELP ";
  text_ += name;
  text_ += ' ';
  append_escaped(text_, help, false);
  text_ += "\n# TYPE ";
  text_ += name;
  text_ += ' ';
  text_ += kTypeNames[static_cast<std::size_t>(type)];
  text_ += '\n';
}

void MetricsText::begin(std::string_view suffix, std::string_view labels, std::string_view more) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty() || !more.empty()) {
    text_ += '{';
    text_ += labels;
    if (!labels.empty() && !more.empty()) text_ += ',';
    text_ += more;
    text_ += '}';
  }
  text_ += ' ';
}

void MetricsText::sample(std::string_view labels, std::uint64_t value) {
  begin({}, labels);
  append_integer(text_, value);
  text_ += '\n';
}

void MetricsText::sample(std::string_view labels, double value) {
  begin({}, labels);
  append_number(text_, value);
  text_ += '\n';
}

// Bucket i holds values below 2^i ns, that is, up to 2^i - 1: whole nanoseconds make the edge
// exact.
void MetricsText::histogram(std::string_view labels, const Log2Buckets& buckets,
                            std::uint64_t sum_ns) {
  std::uint64_t seen = 0;
  std::size_t next = 0;
  for (const std::size_t edge : kEdges) {
    while (next <= edge) seen += buckets[next++];
    std::string le = "le=\"";
    append_number(le, static_cast<double>((std::uint64_t{1} << edge) - 1) / kNsInSecond);
    le += '"';
    begin("_bucket", labels, le);
    append_integer(text_, seen);
    text_ += '\n';
  }
  while (next < buckets.size()) seen += buckets[next++];
  begin("_bucket", labels, "le=\"+Inf\"");
  append_integer(text_, seen);
  text_ += '\n';
  begin("_sum", labels);
  append_number(text_, static_cast<double>(sum_ns) / kNsInSecond);
  text_ += '\n';
  begin("_count", labels);
  append_integer(text_, seen);
  text_ += '\n';
}

}  // namespace simm::control
