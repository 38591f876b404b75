// LoadSum: a daemon's Load just now, for each of its heartbeats. The counters that it is made of
// are looked for once, by their names, as they appear; after that the sum is one addition for each.
// Owned by the cluster presence. Thread: control, which also registers the counters.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/load.h"

namespace simm::control {

class LoadSum {
public:
  // `counters` outlives it.
  explicit LoadSum(const base::CounterSet& counters) : counters_(counters) {}
  LoadSum(const LoadSum&) = delete;
  LoadSum& operator=(const LoadSum&) = delete;

  [[nodiscard]] base::Load now() {
    seen_ = counters_.each_since(
        seen_, [this](std::string_view name, base::Counter counter, const auto&) {
          base::with_load_cell(cells_, name,
                               [&](std::uint64_t& cell) { parts_.emplace_back(counter, &cell); });
        });
    cells_ = {};
    for (auto& [counter, cell] : parts_) *cell += counter.value();
    return cells_;
  }

private:
  const base::CounterSet& counters_;
  base::Load cells_;
  std::vector<std::pair<base::Counter, std::uint64_t*>> parts_;  // the cell, in cells_
  std::uint32_t seen_ = 0;
};

}  // namespace simm::control
