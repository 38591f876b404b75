// SimManager: a manager's process: the production Manager on a clock of its own, over a disk that
// outlives it. Its death closes all connections. Thread: the one simulated thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "daemon/cluster/manager.h"
#include "tests/sim/control_network.h"
#include "tests/sim/drift_clock.h"
#include "tests/sim/sim_coordinator.h"

namespace simm::sim {

class SimManager final : private cluster::ManagerLinks {
public:
  SimManager(ControlNetwork& network, Dice& dice, SimDisk& disk, Report& report,
             const cluster::ManagerConfig& config);
  ~SimManager() override;

  void pause() { paused_ = true; }
  void resume();

  [[nodiscard]] const cluster::Manager& manager() const { return manager_; }
  [[nodiscard]] base::Epoch epoch() const {
    return manager_.map() == nullptr ? 0 : manager_.map()->epoch();
  }

  // From the network.
  void on_accepted(const ControlLinkPtr& link, const cluster::DaemonIdentity& identity);
  void on_message(const ControlLinkPtr& link, const std::vector<std::byte>& message);
  void on_closed(const ControlLinkPtr& link);

private:
  // ManagerLinks.
  void send(cluster::ConnectionId connection, std::span<const std::byte> message) override;
  void close(cluster::ConnectionId connection, const std::string& why) override;

  void arrive(std::function<void()> event);
  void turn();
  void check_version();

  ControlNetwork& network_;
  Report& report_;
  DriftClock clock_;
  SimCoordinator coordinator_;
  base::SeededRandom random_;  // no two managers draw the same
  cluster::Manager manager_;
  std::map<cluster::ConnectionId, ControlLinkPtr> links_;
  std::deque<std::function<void()>> inbox_;
  bool paused_ = false;
  base::TimeNs turn_ns_ = ~base::TimeNs{0};  // the next one
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
