#include "daemon/tools/simm-bench/result.h"

#include <algorithm>

namespace simm::bench {
namespace {

// Series are for programs that draw them.
nlohmann::json without_series(nlohmann::json params) {
  for (auto& [name, value] : params.items()) {
    if (value.is_structured()) value = "series";
  }
  return params;
}

}  // namespace

std::optional<double> Result::ratio() const {
  if (!baseline || *baseline <= 0) return std::nullopt;
  return value / *baseline;
}

nlohmann::json Result::to_json() const {
  const std::optional<double> quotient = ratio();
  return {{"name", name},
          {"value", value},
          {"unit", unit},
          {"baseline", baseline ? nlohmann::json(*baseline) : nlohmann::json(nullptr)},
          {"ratio", quotient ? nlohmann::json(*quotient) : nlohmann::json(nullptr)},
          {"params", params},
          {"noisy", noisy}};
}

void ResultPrinter::print(const Result& result) {
  if (json_) {
    std::fprintf(out_, "%s\n", result.to_json().dump().c_str());
  } else {
    if (!header_printed_) {
      std::fprintf(out_, "%-22s %14s %-8s %14s %8s  %s\n", "name", "value", "unit", "baseline",
                   "ratio", "params");
      header_printed_ = true;
    }
    const std::optional<double> quotient = result.ratio();
    char baseline[32] = "-";
    char ratio[32] = "-";
    if (result.baseline) std::snprintf(baseline, sizeof baseline, "%.4g", *result.baseline);
    if (quotient) std::snprintf(ratio, sizeof ratio, "%.3f", *quotient);
    std::fprintf(out_, "%-22s %14.4g %-8s %14s %8s  %s%s\n", result.name.c_str(), result.value,
                 result.unit.c_str(), baseline, ratio, without_series(result.params).dump().c_str(),
                 result.noisy ? "  (machine too noisy)" : "");
  }
  std::fflush(out_);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace simm::bench
