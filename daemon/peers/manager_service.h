// ManagerService: the manager's end of the connections of a cluster: listens, carries the messages
// between daemons and a Manager, and gives it its turns. Of several managers one leads; the others
// stand by: they refuse daemons, and say where the leader is.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/cluster/manager.h"
#include "daemon/control/deadline.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/cluster_channel.h"
#include "daemon/peers/cluster_listener.h"
#include "daemon/peers/member_watch.h"

namespace simm::control {

class ManagerService final : private ClusterListenerEvents, private cluster::ManagerLinks {
public:
  ManagerService(ClusterAccess& access, const cluster::ManagerConfig& config,
                 cluster::Coordinator& coordinator);
  ~ManagerService() override;
  ManagerService(const ManagerService&) = delete;
  ManagerService& operator=(const ManagerService&) = delete;

  // What any daemon of the cluster is told that asks for a report (ManagerSurvey).
  void report_with(std::function<std::string()> report) { report_ = std::move(report); }

  // Listens. `address` is the value of manager.listen. Stands by until lead().
  Outcome listen(const std::string& address);
  // Loads the state, and manages from now on; an error says why it must not.
  Outcome lead();
  // Sends all daemons away and forgets what it knows. `why`: what they hear.
  void stand_by(const std::string& why);
  void stop();

  [[nodiscard]] bool leads() const noexcept { return leads_; }
  // Of one that stands by: a manager that knows nothing.
  [[nodiscard]] const cluster::Manager& manager() const noexcept { return *manager_; }
  [[nodiscard]] const cluster::SocketAddress& address() const { return listener_.address(); }

private:
  // One daemon.
  class Connection final : public ClusterChannelEvents {
  public:
    Connection(ManagerService& service, cluster::ConnectionId id, ipc::UniqueFd socket,
               const cluster::HelloResult& hello)
        : service_(service),
          id_(id),
          channel_(service.access_, std::move(socket), hello, *this, id, &service.readers_) {}
    [[nodiscard]] ClusterChannel& channel() noexcept { return channel_; }

  private:
    void on_message(ClusterChannel&, std::span<const std::byte> payload) override {
      service_.on_message(id_, payload);
    }
    void on_closed(ClusterChannel&, const Error&) override { service_.on_closed(id_); }

    ManagerService& service_;
    const cluster::ConnectionId id_;
    ClusterChannel channel_;
  };
  // Of no use any more, but what was said last may still be on its way.
  struct Ending {
    std::unique_ptr<Connection> connection;
    base::TimeNs until_ns = 0;
  };

  // ClusterListenerEvents.
  void on_accepted(ipc::UniqueFd socket, const cluster::HelloResult& result) override;
  // ManagerLinks.
  void send(cluster::ConnectionId connection, std::span<const std::byte> message) override;
  void close(cluster::ConnectionId connection, const std::string& why) override;

  void on_message(cluster::ConnectionId id, std::span<const std::byte> payload);
  void on_closed(cluster::ConnectionId id);
  void end(cluster::ConnectionId id);
  void refuse(cluster::ConnectionId id);
  // The last message of that connection.
  void say_last(cluster::ConnectionId id, const cluster::ManagerMessage& message);
  [[nodiscard]] std::unique_ptr<cluster::Manager> make_manager();
  void sweep();
  void turn();
  void on_timer();
  void watch();

  ClusterAccess& access_;
  const cluster::ManagerConfig config_;
  cluster::Coordinator& coordinator_;
  std::unique_ptr<cluster::Manager> manager_;
  std::function<std::string()> report_ = [] { return std::string("{}"); };
  bool leads_ = false;
  std::string stands_by_ = "no manager leads yet";
  ClusterListener listener_;
  ReadySet readers_;  // before the connections, which leave it
  std::unordered_map<cluster::ConnectionId, std::unique_ptr<Connection>> connections_;
  std::vector<Ending> ending_;
  cluster::ConnectionId next_id_ = 1;
  base::Epoch logged_epoch_ = 0;
  Deadline timer_;
  base::TimeNs armed_ns_ = base::kNoDeadline;  // for when; setting it anew costs more than a turn
  Deadline sweep_;
  MemberWatch members_;
  Deadline look_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
