// DataAgentRdma: the RDMA ends of a data agent. It has a port object for each rail and end, and the
// links that the control thread hands over. For what the engine asks it chooses RDMA or TCP.
// Owned by a DataAgentNetwork. Thread: its data agent, but for the mailboxes' control ends; made
// and destroyed on the control thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/base/waiter.h"
#include "daemon/peers/queue_pair_links.h"
#include "daemon/transport/rdma/fallback_requester.h"
#include "daemon/transport/rdma/rdma_ports.h"
#include "daemon/transport/rdma/rdma_requester.h"
#include "daemon/transport/rdma/rdma_responder.h"

namespace simm {

class DataAgentRdma final : private base::FdWatch {
public:
  // Connections of one agent each way; and requests that may be under way on one.
  static constexpr std::uint32_t kRdmaLinksMax = 128;
  static constexpr std::uint32_t kCredits = 32;

  struct Setup {
    const base::Config& config;
    const base::TenantWeights& weights;
    const base::Clock& clock;
    std::vector<transport::RdmaDevice*> rails;
    std::vector<transport::RailTraits> traits;  // of those
    const transport::MemoryKeys& keys;
    transport::Mover& mover;
    base::Waiter& waiter;
    transport::RdmaCounters counters;
    transport::OwnRoster& links;
    transport::RequesterRosters& rosters;
    transport::Requester* tcp = nullptr;  // null: this agent asks nobody
    bool serves = false;
  };
  // Errors: of the devices (no room for a completion queue, no descriptors).
  static Expected<std::unique_ptr<DataAgentRdma>> make(const Setup& setup);
  ~DataAgentRdma() override;
  DataAgentRdma(const DataAgentRdma&) = delete;
  DataAgentRdma& operator=(const DataAgentRdma&) = delete;

  // Null: it asks nobody. The engine's way to other daemons: RDMA, else TCP.
  [[nodiscard]] transport::Requester* requester() noexcept { return choice_ ? &*choice_ : nullptr; }
  // Null: it serves no shard.
  [[nodiscard]] transport::Responder* responder() noexcept {
    return responder_ ? &*responder_ : nullptr;
  }

  // The control thread has to be told of what happened since the last call.
  [[nodiscard]] bool take_news() noexcept;
  // The control thread's ends.
  [[nodiscard]] control::AgentQueuePairs queue_pairs() noexcept;

private:
  explicit DataAgentRdma(base::Waiter& waiter);
  Outcome make_ports(const Setup& setup, transport::RdmaPorts& ports);
  // The next turn polls.
  void on_fd_ready(std::uint32_t) noexcept override {}

  base::Waiter& waiter_;
  transport::RdmaPorts asking_;
  transport::RdmaPorts serving_;
  transport::RdmaLinkMailbox outgoing_;
  transport::RdmaLinkMailbox incoming_;
  std::optional<transport::RdmaRequester> requester_;
  std::optional<transport::RdmaResponder> responder_;
  std::optional<transport::FallbackRequester> choice_;
};

}  // namespace simm
