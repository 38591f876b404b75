// SimMover: how the objects of one shard of a simulated server move on with their slots: the
// production SlotMover and Engine on top of a NodeEnd, as of a daemon without clients. To the
// network a shard that asks is a node, with a number far above those of nodes.
// Thread: the one simulated thread.
#pragma once

#include <memory>
#include <vector>

#include "daemon/cluster/map_placement.h"
#include "daemon/engine/engine.h"
#include "daemon/moves/replica_mover.h"
#include "daemon/moves/slot_mover.h"
#include "tests/sim/network.h"
#include "tests/sim/node_end.h"
#include "tests/sim/process.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_peers.h"

namespace simm::sim {

class SimMover {
public:
  // `self`: of its server. The store and the server outlive it.
  SimMover(const Scenario& scenario, Network& network, const ProcessClock& clock,
           const cluster::DaemonIdentity& self, std::uint16_t shard, store::Store& store,
           server::Server& server);
  // Its server dies, however much is under way.
  ~SimMover();

  // Called whenever do_work() would find something.
  void on_wake(std::function<void()> wake) { requester_->wake = std::move(wake); }
  // The server has taken that map. `refills`: what to give copies of; null: nothing.
  void use_map(const cluster::SlotMap& map, const base::SlotDepartures* refills);
  int do_work();
  [[nodiscard]] base::TimeNs next_deadline_ns() const;
  [[nodiscard]] bool is_busy() const { return mover_.is_busy() || replica_mover_.is_busy(); }
  [[nodiscard]] std::uint32_t in_flight() const { return engine_.in_flight(); }

  // The first number of a shard that asks.
  static constexpr std::uint32_t kFirstNumber = 1'000'000;
  static std::uint32_t number_of(const cluster::DaemonIdentity& self, std::uint16_t shard) {
    return kFirstNumber + static_cast<std::uint32_t>(self.incarnation.low) * 16 + shard;
  }
  static bool is_server(std::uint32_t node) { return node >= kFirstNumber; }
  // The server behind such a number.
  static std::uint32_t server_of(std::uint32_t node) { return (node - kFirstNumber) / 16; }

private:
  static std::unique_ptr<NodeEnd> make_requester(const Scenario& scenario, Network& network,
                                                 const cluster::DaemonIdentity& self,
                                                 std::uint16_t shard, const ProcessClock& clock);

  Network& network_;
  const std::uint32_t number_;
  SimPeers peers_;
  std::vector<std::unique_ptr<cluster::MapPlacement>> placements_;  // that were ever in use
  const std::unique_ptr<NodeEnd> requester_;
  engine::SoleRequester requesters_;
  engine::Engine engine_;
  moves::SlotMover mover_;
  moves::ReplicaMover replica_mover_;
};

}  // namespace simm::sim
