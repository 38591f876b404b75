#include "daemon/metrics/metrics_text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/base/histogram.h"
#include "daemon/metrics/counter_metrics.h"
#include "daemon/metrics/metric_table.h"

namespace metrics_text_test {

using namespace simm;
using control::MetricsText;
using control::MetricType;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string text_of(const base::CounterSet& counters) {
  control::CounterMetrics metrics(counters);
  MetricsText text;
  metrics.write(text);
  return text.text();
}

TEST_CASE("a family has its help, its type and its samples") {
  MetricsText text;
  text.family("simm_x_total", MetricType::counter, "Back\\slash and\nline.");
  text.sample("", std::uint64_t{18446744073709551615U});
  text.sample({{"a", "1"}, {"b", "two"}}, 2);
  text.family("simm_y", MetricType::gauge, "Plain.");
  text.sample("", 0.25);
  CHECK(text.text() ==
        "# HELP simm_x_total Back\\\\slash and\\nline.\n# TYPE simm_x_total counter\n"
        "simm_x_total 18446744073709551615\nsimm_x_total{a=\"1\",b=\"two\"} 2\n"
        "# HELP simm_y Plain.\n# TYPE simm_y gauge\nsimm_y 0.25\n");
}

TEST_CASE("a label value can forge nothing") {
  CHECK(control::label_text({{"t", "a\"} 1\nsimm_x 2\\"}}) == "t=\"a\\\"} 1\\nsimm_x 2\\\\\"");
  // Bytes that are no UTF-8 would make a reader refuse the whole page.
  CHECK(control::label_text({{"t", "\xff\r\x1b"}}) == "t=\"\\\\xff\\\\x0d\\\\x1b\"");
  CHECK(control::label_text({}).empty());
}

TEST_CASE("numbers are written so that they read back the same") {
  const auto number = [](double value) {
    std::string text;
    control::append_number(text, value);
    return text;
  };
  CHECK(number(0) == "0");
  CHECK(number(0.1) == "0.1");
  CHECK(number(1.023e-06) == "1.023e-06");
  CHECK(number(std::numeric_limits<double>::infinity()) == "+Inf");
  CHECK(number(-std::numeric_limits<double>::infinity()) == "-Inf");
  CHECK(number(std::nan("")) == "NaN");
  CHECK(std::stod(number(1.0 / 3)) == 1.0 / 3);
}

struct Bucket {
  double le;
  std::uint64_t count;
};

std::vector<Bucket> buckets_in(const std::string& text) {
  std::vector<Bucket> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t le = line.find("le=\"");
    if (le == std::string::npos) continue;
    const std::string edge = line.substr(le + 4, line.find('"', le + 4) - le - 4);
    all.push_back({edge == "+Inf" ? std::numeric_limits<double>::infinity() : std::stod(edge),
                   std::stoull(line.substr(line.rfind(' ')))});
  }
  return all;
}

TEST_CASE("buckets are cumulative, their edges exact, and the last one is the count") {
  base::CounterSet counters;
  base::Histogram first(counters, "engine.0.complete_ns");
  base::Histogram second(counters, "engine.1.complete_ns");
  const std::vector<std::uint64_t> values = {0,         1,         1023,          1024,
                                             1'000'000, 1'500'000, 7'000'000'000, 200'000'000'000};
  std::uint64_t sum = 0;
  for (const std::uint64_t value : values) {
    (value % 2 == 0 ? first : second).record(value);
    sum += value;
  }
  const std::string text = text_of(counters);
  const auto buckets = buckets_in(text);
  CHECK(buckets.size() <= 20);
  REQUIRE(buckets.size() > 10);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    std::uint64_t expected = 0;
    for (const std::uint64_t value : values) {
      expected += static_cast<double>(value) / 1e9 <= buckets[i].le ? 1U : 0U;
    }
    CHECK(buckets[i].count == expected);
    if (i > 0) CHECK(buckets[i].le > buckets[i - 1].le);
  }
  CHECK(std::isinf(buckets.back().le));
  CHECK(holds(text, "simm_batch_duration_seconds_count 8\n"));
  std::string seconds;
  control::append_number(seconds, static_cast<double>(sum) / 1e9);
  CHECK(holds(text, "simm_batch_duration_seconds_sum " + seconds + "\n"));
  CHECK(holds(text, "# TYPE simm_batch_duration_seconds histogram\n"));
}

TEST_CASE("a counter is found under its metric, and one that came later as well") {
  base::CounterSet counters;
  counters.counter("engine.3.op.get.pages.not_found").add(7);
  counters.counter("runner.data0.turn_ns_max").set(1'500'000);
  control::CounterMetrics metrics(counters);
  MetricsText before;
  metrics.write(before);
  CHECK(holds(before.text(), "simm_pages_total{agent=\"3\",op=\"get\",result=\"not_found\"} 7\n"));
  CHECK(holds(before.text(), "simm_thread_turn_max_seconds{thread=\"data0\"} 0.0015\n"));
  CHECK_FALSE(holds(before.text(), "simm_connection_ends_total"));
  counters.counter("control.closed.refused").add(2);
  counters.counter("engine.3.op.get.pages.not_found").add(1);
  counters.counter("nobody.knows.it").add(5);
  MetricsText after;
  metrics.write(after);
  CHECK(holds(after.text(), "simm_connection_ends_total{cause=\"refused\"} 2\n"));
  CHECK(holds(after.text(), "result=\"not_found\"} 8\n"));
  CHECK(holds(after.text(), "simm_other{name=\"nobody.knows.it\"} 5\n"));
}

TEST_CASE("a star stands for the rest of one part of a name") {
  control::PatternMatch match;
  CHECK(control::matches("engine.*.op.*.bytes", "engine.12.op.put.bytes", match));
  REQUIRE(match.count == 2);
  CHECK(match.stars[0] == "12");
  CHECK(match.stars[1] == "put");
  CHECK(control::matches("cluster.links.lost_*", "cluster.links.lost_io_error", match));
  CHECK(match.stars[0] == "io_error");
  CHECK(control::matches("counters.refused", "counters.refused", match));
  CHECK(match.count == 0);
  CHECK_FALSE(control::matches("engine.*.bytes", "engine.1.op.bytes", match));
  CHECK_FALSE(control::matches("engine.*.bytes", "engine..bytes", match));
  CHECK_FALSE(control::matches("limit.*.reached", "limit.x.reached.more", match));
  CHECK_FALSE(control::matches("limit.*.reached", "limi", match));
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// https://prometheus.io/docs/practices/naming/
TEST_CASE("names and units keep to Prometheus' conventions, and rows of a metric stand together") {
  std::set<std::string_view> metrics;
  std::set<std::string> patterns;
  std::string_view last;
  for (const control::MetricRow& row : control::metric_rows()) {
    const std::string name(row.metric);
    INFO(name);
    CHECK(patterns.insert(std::string(row.pattern)).second);
    CHECK(name.rfind("simm_", 0) == 0);
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos);
    CHECK(ends_with(name, "_total") == (row.type == MetricType::counter));
    CHECK((row.unit == control::MetricUnit::ns) == holds(name, "_seconds"));
    for (const char* unit : {"_ns", "_ms", "_us", "_kib", "_mib", "_percent", "_milliseconds"}) {
      CHECK_FALSE(holds(name + "_", std::string(unit) + "_"));
    }
    if (holds(std::string(row.pattern), "bytes") && !holds(std::string(row.pattern), "held")) {
      CHECK(holds(name, "_bytes"));
    }
    if (row.metric == last) {
      CHECK(row.help.empty());
    } else {
      CHECK(metrics.insert(row.metric).second);
      CHECK_FALSE(row.help.empty());
      CHECK(row.help.back() == '.');
    }
    last = row.metric;
  }
  CHECK(metrics.size() > 50);
}

}  // namespace metrics_text_test
