#include <memory>

#include "tests/conformance/coordinator_world.h"
#include "tests/sim/sim_coordinator.h"

namespace sim_coordinator_world {

class World final : public conformance::CoordinatorWorld {
public:
  simm::cluster::Coordinator& restart() override {
    coordinator_ = std::make_unique<simm::sim::SimCoordinator>(disk_);
    return *coordinator_;
  }
  void lose() override { disk_.state.reset(); }

private:
  simm::sim::SimDisk disk_;
  std::unique_ptr<simm::sim::SimCoordinator> coordinator_;
};

const conformance::CoordinatorRegistration kRegistration("simulated",
                                                         [] { return std::make_unique<World>(); });

}  // namespace sim_coordinator_world
