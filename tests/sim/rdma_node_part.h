// RdmaNodePart: the production RdmaRequester of a simulated node, over simulated devices, a rail
// each, and what its control thread does for it: queue pairs are made and connected here. When the
// node dies, nothing here runs any more, but its devices do for a while: so all that they use is
// its own. Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/cluster/cluster_message.h"
#include "daemon/transport/own_roster.h"
#include "daemon/transport/rdma/rdma_ports.h"
#include "daemon/transport/rdma/rdma_requester.h"
#include "daemon/transport/region_mover.h"
#include "tests/sim/event_loop.h"
#include "tests/sim/network.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_memory_keys.h"

namespace simm::sim {

class RdmaServerPart;

class RdmaNodePart {
public:
  RdmaNodePart(const RdmaScenario& scenario, Network& network, std::uint32_t node,
               const ProcessClock& clock, std::shared_ptr<transport::OwnRoster> roster);
  ~RdmaNodePart();
  RdmaNodePart(const RdmaNodePart&) = delete;
  RdmaNodePart& operator=(const RdmaNodePart&) = delete;

  // There is a completion.
  std::function<void()> wake = [] {};

  [[nodiscard]] transport::RdmaRequester& requester() noexcept { return *requester_; }
  [[nodiscard]] std::uint16_t rails() const noexcept {
    return static_cast<std::uint16_t>(devices_.size());
  }
  // Pages of a client; each rail knows them in its own time.
  void add_memory(std::span<std::byte> pages);

  // A queue pair to that shard. False: the server's devices have no room.
  bool dial(transport::Route route, transport::Route to, std::uint16_t rail, RdmaServerPart& server,
            const cluster::DaemonIdentity& self);
  // The server's end of it has gone.
  void drop_link(std::uint64_t link);
  void drop_peer(base::PeerId peer);
  // Links that are over, with the rail of each.
  struct Ended {
    transport::Route route;
    std::uint16_t rail = 0;
  };
  [[nodiscard]] std::vector<Ended> take_ended();
  // The process has died. The servers hear of that, each link's in its own time, unless its machine
  // has died with it.
  void die(bool is_silent);
  // Behind that.
  void end_queue_pairs();

private:
  struct Known {
    transport::Route route;
    transport::Route to;
    std::uint16_t rail = 0;
  };
  void tell_server(std::uint64_t link, transport::Route to);

  Network& network_;
  const std::uint32_t node_;
  const ProcessClock clock_;
  const std::shared_ptr<transport::OwnRoster> roster_;
  std::vector<std::unique_ptr<SimRdmaDevice>> devices_;
  transport::RdmaPorts ports_;
  SimMemoryKeys keys_;
  transport::RegionMover mover_;
  transport::RdmaLinkMailbox mail_{256};
  std::map<std::uint64_t, Known> known_;  // links that are not over
  std::map<std::uint64_t, std::unique_ptr<transport::RdmaLink>> greeted_;  // not the agent's yet
  std::optional<transport::RdmaRequester> requester_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
