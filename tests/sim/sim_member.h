// SimMember: the control thread of a simulated daemon: the production ClusterMember on a clock of
// its own. A paused process does nothing; what arrives waits for it. Its death closes its
// connection. Thread: the one simulated thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "daemon/cluster/cluster_member.h"
#include "tests/sim/control_network.h"
#include "tests/sim/drift_clock.h"

namespace simm::sim {

class SimMember final : private cluster::MemberLink, private cluster::MemberEvents {
public:
  struct Hooks {
    std::function<void(const cluster::SlotMapPtr&)> on_map;
    std::function<void()> on_expelled;
    // Whom of the map it reaches; empty: it does not say.
    std::function<cluster::MemberSet(const cluster::SlotMap&)> reached;
    // It reads back its pool; empty: it has none.
    std::function<bool()> recovers = {};
  };

  SimMember(ControlNetwork& network, Dice& dice, MapBook& maps, Report& report,
            const cluster::MemberConfig& config, Hooks hooks);
  ~SimMember() override;

  // Its host dies with it: nobody is told.
  void die_silently();
  void pause() { paused_ = true; }
  void resume();
  [[nodiscard]] bool paused() const { return paused_; }

  [[nodiscard]] cluster::ClusterMember& member() { return member_; }
  [[nodiscard]] const cluster::ClusterMember& member() const { return member_; }
  [[nodiscard]] const cluster::DaemonIdentity& identity() const {
    return member_.config().identity;
  }
  [[nodiscard]] Serial serial() const { return static_cast<Serial>(identity().incarnation.low); }
  [[nodiscard]] std::weak_ptr<int> alive() const { return alive_; }

  // From the network. Null: nobody listens there.
  void on_dialled(const ControlLinkPtr& link);
  void on_message(const ControlLinkPtr& link, const std::vector<std::byte>& message);
  void on_closed(const ControlLinkPtr& link);

private:
  // MemberLink.
  void send(std::span<const std::byte> message) override;
  void close(const std::string& why) override;
  // MemberEvents.
  void on_map(const cluster::SlotMapPtr& map, const cluster::SlotMapPtr& before) override;
  void on_expelled(const std::string& reason) override;
  cluster::Heartbeat load() override;
  cluster::Answer answer(const cluster::Question&) override { return {}; }
  void on_answer(const cluster::Answer&) override {}

  void arrive(std::function<void()> event);
  void turn();
  void redial();

  ControlNetwork& network_;
  Dice& dice_;
  MapBook& maps_;
  Report& report_;
  DriftClock clock_;
  Hooks hooks_;
  cluster::ClusterMember member_;
  ControlLinkPtr link_;
  std::deque<std::function<void()>> inbox_;
  bool paused_ = false;
  base::TimeNs turn_ns_ = ~base::TimeNs{0};  // the next one
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
