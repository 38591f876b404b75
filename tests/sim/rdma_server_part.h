// RdmaServerPart: the production RdmaResponder of one shard of a simulated server, over a simulated
// device, and what the control thread does for it. Destroying it is the end of its queue pairs.
// Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>

#include "daemon/peers/asking_daemons.h"
#include "daemon/transport/rdma/rdma_responder.h"
#include "tests/sim/network.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_memory_keys.h"

namespace simm::sim {

class RdmaServerPart {
public:
  // All references outlive it. `arena`: the memory of the shard.
  RdmaServerPart(const RdmaScenario& scenario, Network& network, transport::Route route,
                 const base::Clock& clock, std::span<std::byte> arena,
                 transport::RequesterRosters& rosters, control::AskingDaemons& daemons,
                 transport::ResponderEvents& events);
  ~RdmaServerPart();
  RdmaServerPart(const RdmaServerPart&) = delete;
  RdmaServerPart& operator=(const RdmaServerPart&) = delete;

  // There is a completion.
  std::function<void()> wake = [] {};

  [[nodiscard]] transport::RdmaResponder& responder() noexcept { return responder_; }
  // Its queue pair is not connected yet. Null: there is no room.
  [[nodiscard]] std::unique_ptr<transport::RdmaLink> make_link();
  // A hello has ended: that node's process, of that incarnation, has the other end.
  void accept(std::unique_ptr<transport::RdmaLink> link, const cluster::DaemonIdentity& dialler);
  // The node's end of it has gone.
  void drop_link(std::uint64_t link);
  // The control thread takes what is over.
  void take_ended();
  // The process has died: the nodes hear of that, each link's in its own time.
  void tell_nodes();

private:
  struct Known {
    std::uint32_t node = 0;
    control::AskingDaemons::Link asker;
  };
  void tell_node(std::uint64_t link, std::uint32_t node);

  Network& network_;
  const transport::Route route_;
  control::AskingDaemons& daemons_;
  std::unique_ptr<SimRdmaDevice> device_;
  std::unique_ptr<transport::RdmaPort> port_;
  SimMemoryKeys keys_;
  transport::RdmaLinkMailbox mail_{256};
  std::map<std::uint64_t, Known> known_;  // links that are not over
  transport::RdmaResponder responder_;
};

}  // namespace simm::sim
