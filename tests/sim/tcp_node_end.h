// TcpNodeEnd: the production TcpRequester of a simulated node, over simulated sockets. Whatever
// passes between it and its engine is noted for the histories. Also the part of the control thread
// that dials: several connections to each shard of each peer, and another one for each that ends.
// Thread: the one simulated thread.
#pragma once

#include <map>
#include <memory>

#include "daemon/cluster/cluster_message.h"
#include "daemon/transport/own_roster.h"
#include "daemon/transport/region_mover.h"
#include "daemon/transport/tcp/tcp_requester.h"
#include "tests/sim/network.h"
#include "tests/sim/node_end.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_socket_io.h"

namespace simm::sim {

class TcpNodeEnd final : public NodeEnd, private transport::RequesterEvents {
public:
  TcpNodeEnd(const TcpScenario& scenario, Network& network, std::uint32_t node,
             const cluster::DaemonIdentity& self, const base::Clock& clock);
  ~TcpNodeEnd() override;

  void crash() override;
  void add_peer(base::PeerId peer, std::uint16_t shards) override;
  void drop_peer(base::PeerId peer) override;
  [[nodiscard]] bool is_rid_of(base::PeerId peer) const override;
  [[nodiscard]] std::size_t outstanding() const noexcept override { return open_.size(); }

  void connect(transport::RequesterEvents& events,
               transport::RegionFaults* faults) noexcept override;
  Status post(transport::Route route, transport::RequestToken token,
              const transport::Request& request) noexcept override;
  void cancel(transport::Route route, transport::RequestToken token) noexcept override;
  void abandon(transport::Route route, transport::RequestToken token) noexcept override;
  void reset(transport::Route route, transport::RequestToken culprit) noexcept override;
  [[nodiscard]] std::uint64_t moved(transport::Route route) const noexcept override {
    return requester_.moved(route);
  }
  int do_work() noexcept override;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override {
    return requester_.next_deadline_ns();
  }
  [[nodiscard]] bool prepare_sleep() noexcept override { return requester_.prepare_sleep(); }

private:
  struct Peer {
    bool is_wanted = true;
    std::uint32_t dials = 0;  // under way
    std::uint32_t links = 0;  // at the agent, or on their way there or back
  };

  void dial_after(transport::Route route, base::TimeNs delay_ns, base::TimeNs pause_ns);
  void dial(transport::Route route, base::TimeNs pause_ns);
  void take_link(transport::Route route, const ConnectionPtr& connection);
  void take_lost();
  // The request behind the engine's token; 0: there is none.
  [[nodiscard]] std::uint64_t serial_of(transport::RequestToken token) const;
  WireRequestPtr end(std::uint64_t serial);

  void on_reply(transport::RequestToken serial,
                std::span<const transport::PageReply> pages) noexcept override;
  void on_fenced(transport::RequestToken serial, transport::FenceCause cause) noexcept override;

  Network& network_;
  const std::uint32_t node_;
  const cluster::DaemonIdentity self_;
  const base::Clock& clock_;
  const std::uint32_t links_per_shard_;
  transport::RequesterEvents* events_ = nullptr;
  bool is_crashed_ = false;
  std::map<base::PeerId, Peer> peers_;
  std::map<std::uint64_t, ConnectionPtr> connections_;  // by link
  std::map<std::uint64_t, WireRequestPtr> open_;        // by serial
  std::map<transport::RequestToken, std::uint64_t> serials_;
  SimSocketIo io_;
  transport::RegionMover mover_;
  transport::OwnRoster roster_;
  transport::TcpLinkMailbox mail_;
  transport::TcpRequester requester_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
