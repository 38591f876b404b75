// DataAgentNetwork: what a data agent has of its cluster. It has connections to the shards of other
// daemons, connections of theirs to its own shard, and the maps that tell who serves what.
// Owned by a DataAgent. Thread: its data agent, but for the mailboxes' control ends; made and
// destroyed on the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/agent/data_agent_rdma.h"
#include "daemon/agent/rdma_rails.h"
#include "daemon/base/config.h"
#include "daemon/base/counters.h"
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
  // Requests of other daemons that may meet at one shard.
  static constexpr std::uint32_t kRequestsMax =
      kLinksMax * kCredits + DataAgentRdma::kRdmaLinksMax * DataAgentRdma::kCredits;
  // Numbers of peers: all members of a map, and as many that have left it.
  static constexpr std::uint32_t kPeersMax = 2 * cluster::kMembersMax;

  // `asks`: it has clients, whose pages may lie on other daemons. `serves`: other daemons may ask
  // for its shard; what it holds may move to other daemons with its slots. `mover` is the agent's,
  // `clock` its turns'; of `counters` it writes those of its `index`.
  DataAgentNetwork(const base::Config& config, const base::TenantWeights& weights,
                   const base::Clock& clock, std::unique_ptr<transport::SocketIo> io,
                   transport::Mover& mover, base::Waiter& waiter, base::CounterSet& counters,
                   std::uint32_t index, bool asks, bool serves);
  // At set-up, where this host has RDMA ports.
  Outcome add_rdma(const RdmaRails& rails, base::CounterSet& counters, std::uint32_t index);

  // The way to other daemons; null: it asks nobody.
  [[nodiscard]] transport::Requester* requester() noexcept {
    if (rdma_ != nullptr && rdma_->requester() != nullptr) return rdma_->requester();
    return requester_ ? &*requester_ : nullptr;
  }
  // Of other daemons' ways to this agent; empty: it serves no shard.
  [[nodiscard]] std::vector<transport::Responder*> responders();
  // Calls use(const AgentMap&) for each map that has come; how many that were. Whom a map names can
  // be asked before the map is used: the control thread sends the links to new members first, and a
  // request that waits for the map goes on at once.
  template <typename Use>
  int take_maps(Use&& use) noexcept {
    return maps_.agent_take([this, &use](const cluster::AgentMap& map) {
      if (requester_) requester_->take_links();
      use(map);
    });
  }

  // The control thread has to be told of what happened since the last call.
  [[nodiscard]] bool take_news() noexcept;

  // The control thread's ends.
  [[nodiscard]] control::AgentPresence presence() noexcept {
    return {{requester_ ? &outgoing_ : nullptr, responder_ ? &incoming_ : nullptr, !asks_},
            &maps_,
            rdma_ != nullptr ? rdma_->queue_pairs() : control::AgentQueuePairs{}};
  }

private:
  const base::Config& config_;
  const base::TenantWeights weights_;  // of turns on links
  const base::Clock& clock_;
  transport::Mover& mover_;
  base::Waiter& waiter_;
  const bool asks_;
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
