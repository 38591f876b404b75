// CounterTotals: a daemon's counters with those of its data agents added up, as JSON: of
// "engine.0.batches" and "engine.1.batches" comes "engine.batches". Where a sum means nothing, as
// of a longest turn, the largest is shown. With 64 data agents that is a 60th of what stats_text()
// shows. What belongs together is decided once for each counter; after that a text costs reading
// each of them.
// Owned by the reports of a daemon. Thread: control.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/counters.h"

namespace simm::control {

class CounterTotals {
public:
  explicit CounterTotals(const base::CounterSet& counters) : counters_(counters) {}

  // An object of names and values.
  [[nodiscard]] std::string text();

private:
  struct Total {
    std::string name;  // as JSON, with its quotes
    bool is_largest = false;
    std::vector<base::Counter> parts;
  };

  void bind(std::string_view name, const base::Counter& counter);

  const base::CounterSet& counters_;
  std::uint32_t bound_ = 0;                                // counters that have their place
  std::vector<Total> totals_;                              // in the order in which they were met
  std::map<std::string, std::size_t, std::less<>> index_;  // into totals_, by name
};

}  // namespace simm::control
