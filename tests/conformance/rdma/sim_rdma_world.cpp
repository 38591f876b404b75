#include "tests/conformance/rdma/rdma_world.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"

namespace rdma_conformance {
namespace {

class SimRdmaWorld final : public RdmaWorld {
public:
  explicit SimRdmaWorld(std::uint64_t seed)
      : fabric_(seed), serving_(fabric_.make_device()), asking_(fabric_.make_device()) {}

  simm::transport::RdmaDevice& serving() override { return *serving_; }
  simm::transport::RdmaDevice& asking() override { return *asking_; }
  void turn() override { fabric_.step(); }
  [[nodiscard]] int patience_turns() const override { return 20'000; }

private:
  simm::sim::SimRdmaFabric fabric_;
  std::unique_ptr<simm::transport::RdmaDevice> serving_;
  std::unique_ptr<simm::transport::RdmaDevice> asking_;
};

}  // namespace

RdmaWorldKind sim_world(std::uint64_t seed) {
  return {"simulated, seed " + std::to_string(seed),
          [seed](const RdmaWorldOptions&) { return std::make_unique<SimRdmaWorld>(seed); }};
}

}  // namespace rdma_conformance
