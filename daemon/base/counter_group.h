// CounterGroup: what one object counts. A struct of counters derives from it and makes each counter
// where it is declared, with its name and its metric. Nothing else lists counters.
//
//   struct StoveCounters : base::CounterGroup {
//     StoveCounters() = default;  // counts into unread cells
//     StoveCounters(base::CounterSet& set, std::string_view prefix)
//         : CounterGroup(set, prefix, "stove") {}
//
//     base::Counter meals = counter("meals", {"simm_stove_meals_total", "Meals that were
//     cooked."});
//   };
//
// `StoveCounters(set, "stove.3")` counts "stove.3.meals", and its metric has the label stove="3".
// Thread: made while nothing else registers counters; each counter is its writer's.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/base/counters.h"
#include "daemon/base/histogram.h"
#include "daemon/base/metric.h"

namespace simm::base {

// "server", 3: "server.3", the prefix of what the data agent 3 counts there.
[[nodiscard]] inline std::string numbered(std::string_view section, std::size_t number) {
  return std::string(section) + "." + std::to_string(number);
}

class CounterGroup {
public:
  CounterGroup() = default;  // of unread cells

protected:
  // `label`: whose value is the last part of the prefix; empty: there is none.
  CounterGroup(CounterSet& set, std::string_view prefix, std::string_view label = {})
      : set_(&set), prefix_(prefix), labels_(label_of(prefix, label)) {}

  // A group within a group: "engine.0" and "op.put" make "engine.0.op.put".
  CounterGroup(const CounterGroup& outer, std::string_view name, std::string_view label)
      : set_(outer.set_), prefix_(outer.prefix_ + "." + std::string(name)), labels_(outer.labels_) {
    labels_ += (labels_.empty() ? "" : ",") + label_of(name, label);
  }

  [[nodiscard]] Counter counter(std::string_view name, const Metric& metric) const {
    return counter(name, metric, labels_);
  }

  // One counter for each value, "<name><value>"; each has the label with that value. A value that
  // is empty has an unread cell.
  template <typename Values>
  [[nodiscard]] auto counters(std::string_view name, const Values& values, std::string_view label,
                              const Metric& metric) const {
    std::array<Counter, std::tuple_size_v<Values>> made;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string value(values[i]);
      if (value.empty()) continue;
      const std::string labels = labels_ + (labels_.empty() ? "" : ",") + std::string(label) + "=";
      made[i] = counter(std::string(name) + value, metric, labels + value);
    }
    return made;
  }

  // Of all groups together: without the labels of this one.
  [[nodiscard]] Histogram histogram(std::string_view name, const Metric& metric) const {
    return set_ == nullptr ? Histogram()
                           : Histogram(*set_, prefix_ + "." + std::string(name), metric);
  }

private:
  static std::string label_of(std::string_view prefix, std::string_view label) {
    if (label.empty()) return "";
    return std::string(label) + "=" + std::string(prefix.substr(prefix.rfind('.') + 1));
  }

  [[nodiscard]] Counter counter(std::string_view name, const Metric& metric,
                                const std::string& labels) const {
    if (set_ == nullptr) return Counter();
    return set_->counter(prefix_ + "." + std::string(name), metric, labels);
  }

  CounterSet* set_ = nullptr;
  std::string prefix_;
  std::string labels_;
};

}  // namespace simm::base
