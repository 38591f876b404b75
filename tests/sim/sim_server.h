// SimServer: the process of one storage daemon: its shards, and the control thread that joins the
// manager and tells the shards of new maps, each in its own time. Destroying it is its death.
// Thread: the one simulated thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/sim/sim_member.h"
#include "tests/sim/sim_storage.h"

namespace simm::sim {

class SimServer {
public:
  // `expelled`: it has to stop, and must not be destroyed inside the call.
  SimServer(const Scenario& scenario, Network& network, ControlNetwork& control, Dice& dice,
            MapBook& maps, const cluster::MemberConfig& config, std::function<void()> expelled);

  [[nodiscard]] Serial serial() const { return member_.serial(); }
  [[nodiscard]] SimMember& member() { return member_; }
  [[nodiscard]] const std::vector<std::unique_ptr<SimStorage>>& shards() const { return shards_; }

  void pause();
  void resume();
  [[nodiscard]] bool paused() const { return member_.paused(); }
  // Every shard uses the map of that epoch.
  [[nodiscard]] bool uses(base::Epoch epoch) const;

private:
  void tell_shard(std::size_t shard);

  Network& network_;
  Dice& dice_;
  std::vector<std::unique_ptr<SimStorage>> shards_;
  SimMember member_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
