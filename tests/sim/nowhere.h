// How the engine of a simulated process that has died ends: with everything fenced its operations
// soon do, when what waits for a map gets NowherePlacement. That one is newer than all before, and
// nobody owns anything in it. Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <deque>

#include "daemon/cluster/peer_table.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/placement.h"
#include "tests/sim/report.h"

namespace simm::sim {

class NowherePlacement final : public engine::Placement {
public:
  explicit NowherePlacement(base::Epoch epoch) : epoch_(epoch) {}
  [[nodiscard]] base::Epoch epoch() const noexcept override { return epoch_; }
  [[nodiscard]] transport::Route route(base::Slot) const noexcept override {
    return {cluster::kNoPeer, 0};
  }

private:
  const base::Epoch epoch_;
};

// Turns until it is over, in which time stands still.
template <typename IsOver, typename Turn>
void end_engine(engine::Engine& engine, Report& report, std::uint32_t node, IsOver is_over,
                Turn turn) {
  std::deque<NowherePlacement> nowhere;
  for (int turns = 0; !is_over(); ++turns) {
    if (turns == 100'000) {
      report.violation("live", "node %u: %u operations stay after all was fenced", node,
                       engine.in_flight());
      return;
    }
    if (turns % 1'000 == 0) {
      engine.use_placement(
          nowhere.emplace_back(~base::Epoch{0} - 100 + static_cast<base::Epoch>(turns / 1'000)));
    }
    turn();
  }
}

}  // namespace simm::sim
