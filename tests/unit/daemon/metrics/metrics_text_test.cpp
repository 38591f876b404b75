#include "daemon/metrics/metrics_text.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/base/counter_group.h"
#include "daemon/metrics/counter_metrics.h"

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
  const base::Metric metric = {"simm_batch_duration_seconds", "How long batches take."};
  base::Histogram first(counters, "engine.0.complete_ns", metric);
  base::Histogram second(counters, "engine.1.complete_ns", metric);
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

struct OvenCounters : base::CounterGroup {
  OvenCounters() = default;
  OvenCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "oven") {}

  base::Counter bread = counter("bread", {"simm_baked_total", "What was baked.", "what=bread"});
  base::Counter cake = counter("cake", {"simm_baked_total", "", "what=cake"});
  base::Counter longest_ns = counter("longest_ns", {"simm_oven_longest_seconds", "The longest."});
  std::array<base::Counter, 3> burnt =
      counters("burnt.", std::array{"", "black", "grey"}, "colour", {"simm_burnt_total", "Burnt."});
  base::Histogram baking_ns = histogram("baking_ns", {"simm_baking_seconds", "All ovens."});
};

TEST_CASE("a counter is found under its metric, and one that came later as well") {
  base::CounterSet counters;
  OvenCounters oven(counters, "oven.3");
  oven.cake.add(7);
  oven.longest_ns.set(1'500'000);
  oven.baking_ns.record(1000);
  oven.burnt[0].add(100);  // read by nobody
  oven.burnt[2].add(4);
  CHECK(counters.value("oven.3.cake") == 7);
  CHECK(counters.value("oven.3.burnt.grey") == 4);
  control::CounterMetrics metrics(counters);
  MetricsText before;
  metrics.write(before);
  CHECK(holds(before.text(),
              "# HELP simm_baked_total What was baked.\n"
              "# TYPE simm_baked_total counter\n"
              "simm_baked_total{oven=\"3\",what=\"bread\"} 0\n"
              "simm_baked_total{oven=\"3\",what=\"cake\"} 7\n"));
  CHECK(holds(before.text(),
              "# TYPE simm_oven_longest_seconds gauge\n"
              "simm_oven_longest_seconds{oven=\"3\"} 0.0015\n"));
  CHECK(holds(before.text(),
              "simm_burnt_total{oven=\"3\",colour=\"black\"} 0\n"
              "simm_burnt_total{oven=\"3\",colour=\"grey\"} 4\n# "));
  CHECK(holds(before.text(), "simm_baking_seconds_count 1\n"));
  OvenCounters second(counters, "oven.4");
  second.cake.add(2);
  second.baking_ns.record(1000);
  oven.cake.add(1);
  counters.counter("nobody.knows.it").add(5);
  MetricsText after;
  metrics.write(after);
  CHECK(holds(after.text(), "simm_baked_total{oven=\"3\",what=\"cake\"} 8\n"));
  CHECK(holds(after.text(), "simm_baked_total{oven=\"4\",what=\"cake\"} 2\n"));
  CHECK(holds(after.text(), "simm_baking_seconds_count 2\n"));
  CHECK(holds(after.text(), "simm_other{name=\"nobody.knows.it\"} 5\n"));
}

TEST_CASE("a group of unread cells counts for nobody") {
  OvenCounters oven;
  oven.bread.add();
  oven.burnt[1].add();
  oven.baking_ns.record(1);
}

}  // namespace metrics_text_test
