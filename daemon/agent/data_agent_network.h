// DataAgentNetwork: what a data agent has of its cluster: connections to the shards of other
// daemons, connections of theirs to its own shard, and the maps that tell who serves what.
// Owned by a DataAgent. Thread: its data agent, but for the mailboxes' control ends; made and
// destroyed on the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/agent/data_agent_rdma.h"
#include "daemon/base/config.h"
#include "daemon/base/waiter.h"
#include "daemon/cluster/map_mailbox.h"
#include "daemon/peers/cluster_presence.h"
#include "daemon/transport/tcp/tcp_requester.h"
#include "daemon/transport/tcp/tcp_responder.h"

namespace simm {

class DataAgentNetwork {
public:
  // Connections of one agent each way; and requests that may be under way on one.
  static constexpr std::uint32_t kLinksMax = 1024;
  static constexpr std::uint32_t kCredits = 32;
  // Numbers of peers: all members of a map, and as many that have left it.
  static constexpr std::uint32_t kPeersMax = 2 * cluster::kMembersMax;

  // `asks`: it has clients, whose pages may lie on other daemons. `serves`: other daemons may ask
  // for its shard. `mover` is the agent's, `clock` its turns', `counters` are written by it.
  DataAgentNetwork(const base::Config& config, const base::Clock& clock,
                   std::unique_ptr<transport::SocketIo> io, transport::Mover& mover,
                   base::Waiter& waiter, const transport::TcpCounters& counters, bool asks,
                   bool serves);
  // At set-up, where this host has RDMA ports. `counters` are written by the agent.
  Outcome add_rdma(const std::vector<transport::RdmaDevice*>& rails,
                   const std::vector<transport::RailTraits>& traits,
                   const transport::MemoryKeys& keys, const transport::RdmaCounters& counters);

  // The way to other daemons; null: it asks nobody.
  [[nodiscard]] transport::Requester* requester() noexcept {
    if (rdma_ != nullptr && rdma_->requester() != nullptr) return rdma_->requester();
    return requester_ ? &*requester_ : nullptr;
  }
  // Who is told; only where it asks somebody.
  void connect(transport::RequesterEvents& events, transport::RegionFaults* faults) noexcept {
    requester_->connect(events, faults);
    if (rdma_ != nullptr) rdma_->connect(events, faults);
  }
  // Null: it serves no shard.
  [[nodiscard]] transport::TcpResponder* responder() noexcept {
    return responder_ ? &*responder_ : nullptr;
  }
  // Null: it serves no shard, or not by RDMA.
  [[nodiscard]] transport::RdmaResponder* rdma_responder() noexcept {
    return rdma_ != nullptr ? rdma_->responder() : nullptr;
  }
  [[nodiscard]] cluster::MapMailbox& maps() noexcept { return maps_; }

  // The earliest time at which something has to be done though nothing arrives.
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;
  [[nodiscard]] bool prepare_sleep() noexcept;
  // The control thread has to be told of what happened since the last call.
  [[nodiscard]] bool take_news() noexcept;

  // The control thread's ends.
  [[nodiscard]] control::AgentPresence presence() noexcept {
    return {{requester_ ? &outgoing_ : nullptr, responder_ ? &incoming_ : nullptr},
            &maps_,
            rdma_ != nullptr ? rdma_->queue_pairs() : control::AgentQueuePairs{}};
  }

private:
  const base::Config& config_;
  const base::Clock& clock_;
  transport::Mover& mover_;
  base::Waiter& waiter_;
  const std::unique_ptr<transport::SocketIo> io_;
  transport::OwnRoster own_roster_;
  transport::RequesterRosters requester_rosters_;
  transport::TcpLinkMailbox outgoing_;
  transport::TcpLinkMailbox incoming_;
  cluster::MapMailbox maps_;
  std::optional<transport::TcpRequester> requester_;
  std::optional<transport::TcpResponder> responder_;
  std::unique_ptr<DataAgentRdma> rdma_;  // null: no RDMA ports
};

}  // namespace simm
