#include "tests/sim/sim_server.h"

#include <algorithm>
#include <utility>

namespace simm::sim {

SimServer::SimServer(const Scenario& scenario, Network& network, ControlNetwork& control,
                     Dice& dice, MapBook& maps, const cluster::MemberConfig& config,
                     std::function<void()> expelled)
    : network_(network),
      dice_(dice),
      member_(control, dice, maps, network.report(), config,
              {[this](const cluster::SlotMapPtr&) {
                 for (std::size_t shard = 0; shard < shards_.size(); ++shard) tell_shard(shard);
               },
               std::move(expelled),
               {}}) {
  const base::PeerId peer{member_.serial()};
  for (std::uint16_t shard = 0; shard < config.shards; ++shard) {
    shards_.push_back(
        std::make_unique<SimStorage>(scenario, network, dice, transport::Route{peer, shard}));
  }
}

void SimServer::pause() {
  network_.stopped(serial(), true);
  member_.pause();
  for (const auto& shard : shards_) shard->process().pause();
}

void SimServer::resume() {
  network_.stopped(serial(), false);
  for (const auto& shard : shards_) shard->process().resume();
  member_.resume();
}

bool SimServer::uses(base::Epoch epoch) const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [&](const auto& shard) { return shard->epoch() == epoch; });
}

void SimServer::tell_shard(std::size_t shard) {
  network_.loop().after(
      dice_.skewed(1, 10 * kMs), [this, shard, alive = std::weak_ptr<int>(alive_)] {
        if (alive.expired()) return;
        if (paused()) return tell_shard(shard);
        // Whatever is the newest by now.
        shards_[shard]->use_map(*member_.member().map(), member_.identity().incarnation);
      });
}

}  // namespace simm::sim
