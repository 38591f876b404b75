// TcpNodeEnd: the production TcpRequester of a simulated node, over simulated sockets, and in some
// runs its RdmaNodePart, which is asked first. Whatever passes between them and the engine is noted
// for the histories. Also the part of the control thread that dials: several connections to each
// shard of each peer, a queue pair for each rail, and another one for each that ends.
// Thread: the one simulated thread.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "daemon/cluster/cluster_message.h"
#include "daemon/transport/own_roster.h"
#include "daemon/transport/rdma/fallback_requester.h"
#include "daemon/transport/region_mover.h"
#include "daemon/transport/tcp/tcp_requester.h"
#include "tests/sim/network.h"
#include "tests/sim/node_end.h"
#include "tests/sim/rdma_node_part.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_socket_io.h"

namespace simm::sim {

class TcpServerEnd;

class TcpNodeEnd final : public NodeEnd, private transport::RequesterEvents {
public:
  TcpNodeEnd(const Scenario& scenario, Network& network, std::uint32_t node,
             const cluster::DaemonIdentity& self, const ProcessClock& clock,
             bool may_have_devices = true);
  ~TcpNodeEnd() override;

  void crash() override;
  void add_memory(std::span<std::byte> pages) override;
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
    return way().moved(route);
  }
  int do_work() noexcept override;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override {
    return is_crashed_ ? base::kNoDeadline : way().next_deadline_ns();
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    return is_crashed_ || way().prepare_sleep();
  }

private:
  struct Peer {
    bool is_wanted = true;
    std::uint32_t dials = 0;  // under way
    std::uint32_t links = 0;  // at the agent, or on their way there or back
  };
  // Of a connection: none.
  static constexpr int kNoRail = -1;

  // What the engine asks.
  [[nodiscard]] transport::Requester& way() noexcept {
    if (choice_) return *choice_;
    return requester_;
  }
  [[nodiscard]] const transport::Requester& way() const noexcept {
    if (choice_) return *choice_;
    return requester_;
  }
  int fence_the_rest();

  void dial_after(transport::Route route, int rail, base::TimeNs delay_ns, base::TimeNs pause_ns);
  void dial(transport::Route route, int rail, base::TimeNs pause_ns);
  bool connect_rail(transport::Route route, transport::Route to, int rail, TcpServerEnd& server);
  void connect_socket(transport::Route route, transport::Route to, TcpServerEnd& server);
  void take_link(transport::Route route, const ConnectionPtr& connection);
  void take_lost();
  void take_ended();
  void redial(transport::Route route, int rail);
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
  const std::shared_ptr<transport::OwnRoster> roster_;
  transport::TcpLinkMailbox mail_;
  transport::TcpRequester requester_;
  std::unique_ptr<RdmaNodePart> rdma_;  // null: a run without, or its devices outlive this object
  std::optional<transport::FallbackRequester> choice_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
