#include "daemon/control/counter_totals.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "daemon/base/json_text.h"

namespace simm::control {
namespace {

// Ends of names; of each of these counters the largest tells something, and a sum does not.
constexpr std::array<std::string_view, 4> kLargest = {"_max", ".largest_hole_bytes", ".pass_ns",
                                                      ".progress_permille"};

bool ends_with(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// "engine.0.batches" without the number of the data agent. GPUs have numbers too, and no sums.
std::string name_without_agent(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == name.npos || name.substr(0, dot) == "gpu") return std::string(name);
  const std::size_t end = name.find_first_not_of("0123456789", dot + 1);
  if (end == name.npos || end == dot + 1 || name[end] != '.') return std::string(name);
  return std::string(name.substr(0, dot)) + std::string(name.substr(end));
}

}  // namespace

void CounterTotals::bind(std::string_view name, const base::Counter& counter) {
  const std::string of_all = name_without_agent(name);
  const auto [found, is_new] = index_.try_emplace(of_all, totals_.size());
  if (is_new) {
    const bool is_largest =
        std::any_of(kLargest.begin(), kLargest.end(),
                    [&of_all](std::string_view end) { return ends_with(of_all, end); });
    totals_.push_back({base::json_text(nlohmann::json(of_all)), is_largest, {}});
  }
  totals_[found->second].parts.push_back(counter);
}

std::string CounterTotals::text() {
  bound_ = counters_.each_since(
      bound_, [this](auto name, const auto& counter, const auto&) { bind(name, counter); });
  std::string text = "{";
  for (const Total& total : totals_) {
    std::uint64_t value = 0;
    for (const base::Counter& part : total.parts) {
      value = total.is_largest ? std::max(value, part.value()) : value + part.value();
    }
    if (text.size() > 1) text += ',';
    text += total.name + ':' + std::to_string(value);
  }
  return text + '}';
}

}  // namespace simm::control
