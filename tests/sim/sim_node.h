// SimNode: one node daemon of a simulated cluster: the production SessionSet and Engine on top of a
// NodeEnd, with the placements that its ClusterMember brings. The rest of the control thread's
// part (attach, regions, namespaces) is played here.
// A crash destroys it; clients then attach to the next one. While it is paused its connections
// stay, and what its servers move into the pages of its clients is moved. Thread: the one simulated
// thread.
#pragma once

#include <memory>
#include <vector>

#include "daemon/cluster/map_placement.h"
#include "daemon/engine/engine.h"
#include "daemon/session/session_set.h"
#include "tests/sim/client_link.h"
#include "tests/sim/network.h"
#include "tests/sim/node_end.h"
#include "tests/sim/process.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_peers.h"
#include "tests/sim/sim_shared_reads.h"

namespace simm::sim {

// The simulation decides when a process runs: nobody sleeps.
class NoWaiter final : public base::Waiter {
public:
  void announce() noexcept override {}
  void retract() noexcept override {}
  void wait_until(base::TimeNs) noexcept override {}
  Outcome watch(int, base::FdWatch&) override { return Done{}; }
  void unwatch(int) noexcept override {}
  void wake() noexcept override {}
};

class NoControl final : public session::ControlWaker {
public:
  void wake_control() noexcept override {}
};

class SimNode {
public:
  SimNode(const Scenario& scenario, Network& network, ControlNetwork& control, Dice& dice,
          MapBook& maps, std::uint32_t number, const cluster::MemberConfig& config);
  // Kills it, however much is under way.
  ~SimNode();

  // Attaches a client with its pages. Stays valid as long as the node.
  ClientLink& attach(base::TenantId tenant, std::span<std::byte> pages);

  [[nodiscard]] Process& process() { return process_; }
  [[nodiscard]] SimMember& member() { return member_; }
  void pause();
  void resume();
  [[nodiscard]] bool paused() const { return process_.paused(); }
  // Of the placement in use; 0: it has none yet.
  [[nodiscard]] base::Epoch epoch() const { return placements_.back()->epoch(); }

  void check_idle(Report& report) const;

private:
  static std::unique_ptr<NodeEnd> make_requester(const Scenario& scenario, Network& network,
                                                 std::uint32_t number,
                                                 const cluster::MemberConfig& config,
                                                 const ProcessClock& clock);
  int turn();
  [[nodiscard]] base::TimeNs next_deadline_ns();
  void take_map(const cluster::SlotMapPtr& map);
  void use_newest_soon();
  void use_newest();
  [[nodiscard]] cluster::MemberSet reached(const cluster::SlotMap& map) const;
  [[nodiscard]] std::unique_ptr<memory::RegionMemory> make_region(std::span<std::byte> pages) const;
  static void take_back(const session::SessionEvent& event);
  session::SessionEvent command(const session::SessionCommand& command);

  const Scenario& scenario_;
  Network& network_;
  Dice& dice_;
  std::uint32_t number_;
  ProcessClock clock_;
  SimPeers peers_;
  std::unique_ptr<cluster::MapPlacement> newest_;                   // not in use yet
  std::vector<std::unique_ptr<cluster::MapPlacement>> placements_;  // that were ever in use
  const std::unique_ptr<NodeEnd> requester_;
  NodeRequesters requesters_;
  engine::Engine engine_;
  std::unique_ptr<SimSharedReads> shared_reads_;
  NoWaiter waiter_;
  NoControl control_;
  session::SessionCommands commands_;
  session::SessionEvents events_;
  std::vector<std::unique_ptr<ClientLink>> links_;
  session::SessionSet sessions_;
  Process process_;
  SimMember member_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
