// One measured figure, and the lines in which simm-bench prints figures: a table row for people, or
// with --json one JSON object per line:
//   {"name", "value", "unit", "baseline", "ratio", "params", "noisy"}
// baseline: the same work done bare, in the same run on the same machine; null where a figure has
// none, and then ratio is null too. noisy: a baseline was outside its sanity bounds, the figure
// says more about the machine than about us. A parameter may be a series of values: the table
// leaves its values out. Thread: any; the printer belongs to one thread.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace simm::bench {

struct Result {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> baseline;
  nlohmann::json params = nlohmann::json::object();
  bool noisy = false;

  // value / baseline; nothing without a baseline above zero.
  std::optional<double> ratio() const;
  nlohmann::json to_json() const;
};

class ResultPrinter {
public:
  // Prints to `out`, which outlives it; flushed after each line, so that a run can be watched.
  ResultPrinter(std::FILE* out, bool json) : out_(out), json_(json) {}

  void print(const Result& result);

private:
  std::FILE* out_;
  bool json_;
  bool header_printed_ = false;
};

// The median; sorts a copy. Zero of nothing.
double median_of(std::vector<double> values);

}  // namespace simm::bench
