// SimManager: a manager's process: the production Manager on a clock of its own, over a disk that
// outlives it, or one of several over an etcd. Of several the one that leads has a Manager; the
// others close what daemons open to them. Its death closes all connections.
// Thread: the one simulated thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "daemon/cluster/manager.h"
#include "tests/sim/control_network.h"
#include "tests/sim/drift_clock.h"
#include "tests/sim/sim_candidate.h"
#include "tests/sim/sim_coordinator.h"

namespace simm::sim {

class SimManager final : private cluster::ManagerLinks {
public:
  // `place`: of the addresses that daemons know.
  struct Place {
    ControlNetwork& network;
    std::size_t place = 0;
  };
  // The only one.
  SimManager(const Place& place, Dice& dice, SimDisk& disk, Report& report,
             const cluster::ManagerConfig& config);
  // One of several; `serial`: of its process.
  SimManager(const Place& place, Dice& dice, SimEtcd& etcd, Serial serial, Report& report,
             const cluster::ManagerConfig& config);
  ~SimManager() override;

  void pause() { paused_ = true; }
  void resume();
  // From etcd, if it is one of several.
  void cut(bool is_cut);

  [[nodiscard]] bool leads() const { return manager_ != nullptr; }
  // Null: the only one.
  [[nodiscard]] SimCandidate* candidate() { return candidate_ ? &*candidate_ : nullptr; }

  // From the network.
  void on_accepted(const ControlLinkPtr& link, const cluster::DaemonIdentity& identity);
  void on_message(const ControlLinkPtr& link, const std::vector<std::byte>& message);
  void on_closed(const ControlLinkPtr& link);

private:
  // ManagerLinks.
  void send(cluster::ConnectionId connection, std::span<const std::byte> message) override;
  void close(cluster::ConnectionId connection, const std::string& why) override;

  [[nodiscard]] Outcome lead(cluster::Coordinator& coordinator);
  void stand_by();
  void refuse(const ControlLinkPtr& link);
  void follow_election();
  void check_belief();
  void wait_for_etcd();
  void arrive(std::function<void()> event);
  void turn();
  void plan_turn();
  void check_version();
  void check_pace();

  ControlNetwork& network_;
  const std::size_t place_;
  Report& report_;
  const cluster::ManagerConfig config_;
  DriftClock clock_;
  std::optional<SimCoordinator> file_;
  std::optional<SimCandidate> candidate_;
  base::SeededRandom random_;                  // no two managers draw the same
  std::unique_ptr<cluster::Manager> manager_;  // null: it does not lead
  std::map<cluster::ConnectionId, ControlLinkPtr> links_;
  std::deque<base::TimeNs> made_ns_;  // by its own clock: when its last maps were made
  cluster::SlotMapPtr made_;          // the last one
  std::deque<std::function<void()>> inbox_;
  bool paused_ = false;
  base::TimeNs look_ns_ = 0;                 // by its own clock: at the election
  base::TimeNs busy_until_ns_ = 0;           // it waits for etcd
  base::TimeNs stale_since_ns_ = 0;          // it leads, and in etcd it does not; 0: no
  base::TimeNs turn_ns_ = ~base::TimeNs{0};  // the next one
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
