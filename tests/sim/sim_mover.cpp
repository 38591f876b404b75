#include "tests/sim/sim_mover.h"

#include <algorithm>
#include <utility>

#include "tests/sim/nowhere.h"
#include "tests/sim/sim_requester.h"
#include "tests/sim/tcp_node_end.h"

namespace simm::sim {
namespace {

engine::EngineConfig engine_config(const Scenario& scenario) {
  engine::EngineConfig config = scenario.engine;
  config.fetches = moves::SlotMover::kOperationsMax;
  if (scenario.replicated) config.fetches += moves::ReplicaMover::kBatchesMax;
  config.replicas = 0;  // it writes for nobody
  config.operations = std::max(config.operations, config.fetches + 1);
  config.requests = std::max(config.requests, config.fetches + 1);
  return config;
}

}  // namespace

SimMover::SimMover(const Scenario& scenario, Network& network, const ProcessClock& clock,
                   const cluster::DaemonIdentity& self, std::uint16_t shard, store::Store& store,
                   server::Server& server)
    : network_(network),
      number_(number_of(self, shard)),
      peers_(self.incarnation),
      requester_(make_requester(scenario, network, self, shard, clock)),
      requesters_(*requester_),
      engine_(engine_config(scenario), clock, engine::PageHasher(scenario.cluster_seed),
              *placements_.emplace_back(std::make_unique<cluster::MapPlacement>()), requesters_),
      mover_(scenario.mover, store, server, engine_, clock),
      replica_mover_(scenario.mover, scenario.replicated_names(), store, server, engine_, clock) {
  requester_->connect(engine_, nullptr);
  peers_.serve(*requester_);
}

std::unique_ptr<NodeEnd> SimMover::make_requester(const Scenario& scenario, Network& network,
                                                  const cluster::DaemonIdentity& self,
                                                  std::uint16_t shard, const ProcessClock& clock) {
  const std::uint32_t number = number_of(self, shard);
  if (!scenario.tcp.is_used) return std::make_unique<SimRequester>(network, number, clock);
  return std::make_unique<TcpNodeEnd>(scenario, network, number, self, clock, false);
}

void SimMover::use_map(const cluster::SlotMap& map, const base::SlotDepartures* refills) {
  peers_.use(map);
  placements_.push_back(std::make_unique<cluster::MapPlacement>(map, peers_.table()));
  engine_.use_placement(*placements_.back());
  peers_.release();
  mover_.on_map();
  replica_mover_.on_map(refills);
}

int SimMover::do_work() {
  return mover_.do_work() + replica_mover_.do_work() + engine_.do_work();
}

base::TimeNs SimMover::next_deadline_ns() const {
  return std::min({mover_.next_deadline_ns(), replica_mover_.next_deadline_ns(),
                   engine_.next_deadline_ns(), requester_->next_deadline_ns()});
}

// The engine insists on being idle when it is destroyed: with everything fenced it soon is, when
// what waits for a map gets one. Time stands still here.
SimMover::~SimMover() {
  requester_->wake = [] {};
  requester_->crash();
  end_engine(
      engine_, network_.report(), number_, [this] { return engine_.in_flight() == 0; },
      [this] { engine_.do_work(); });
}

}  // namespace simm::sim
