#include "daemon/agent/data_agent_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/transport/payload_progress.h"

namespace simm {
namespace {

// More than there can be connections, and a power of two.
constexpr std::size_t kLinkMessages = 2 * DataAgentNetwork::kLinksMax;

transport::TcpRequesterConfig requester_config(const base::Config& config,
                                               const base::TenantWeights& weights,
                                               bool has_responder) {
  transport::TcpRequesterConfig result;
  result.links_max = DataAgentNetwork::kLinksMax;
  result.credits = DataAgentNetwork::kCredits;
  result.peer_detection_ns = config.cluster.detection_ms * base::kNsPerMs;
  result.weights = weights;
  result.is_io_polled = has_responder;
  return result;
}

transport::TcpResponderConfig responder_config(const base::Config& config,
                                               const base::TenantWeights& weights) {
  transport::TcpResponderConfig result;
  result.links_max = DataAgentNetwork::kLinksMax;
  result.credits = DataAgentNetwork::kCredits;
  // Nothing waits for this but our own memory.
  const base::TimeNs detection_ns = config.cluster.detection_ms * base::kNsPerMs;
  result.peer_silence_ns = std::max(result.peer_silence_ns, transport::silence_after(detection_ns));
  result.weights = weights;
  return result;
}

}  // namespace

DataAgentNetwork::DataAgentNetwork(const base::Config& config, const base::TenantWeights& weights,
                                   const base::Clock& clock,
                                   std::unique_ptr<transport::SocketIo> io, transport::Mover& mover,
                                   base::Waiter& waiter, base::CounterSet& counters,
                                   std::uint32_t index, bool asks, bool serves)
    : config_(config),
      weights_(weights),
      clock_(clock),
      mover_(mover),
      waiter_(waiter),
      asks_(asks),
      io_(std::move(io)),
      own_roster_(kLinksMax + DataAgentRdma::kRdmaLinksMax),
      requester_rosters_(kLinksMax + DataAgentRdma::kRdmaLinksMax),
      outgoing_(kLinkMessages, &waiter),
      incoming_(kLinkMessages, &waiter),
      maps_(&waiter) {
  const transport::TcpCounters counted(counters, base::numbered("tcp", index));
  if (asks || serves) {
    requester_.emplace(requester_config(config, weights, serves), clock, *io_, mover, own_roster_,
                       outgoing_, counted);
  }
  if (serves) {
    responder_.emplace(responder_config(config, weights), clock, *io_, requester_rosters_,
                       incoming_, counted);
  }
}

Outcome DataAgentNetwork::add_rdma(const RdmaRails& rails, base::CounterSet& counters,
                                   std::uint32_t index) {
  auto made = DataAgentRdma::make(
      {config_, weights_, clock_, rails.devices(), rails.traits(), rails, mover_, waiter_,
       transport::RdmaCounters(counters, base::numbered("rdma", index)), own_roster_,
       requester_rosters_, asks_ ? &*requester_ : nullptr, responder_.has_value()});
  if (!made) return std::move(made).error();
  rdma_ = std::move(*made);
  return Done{};
}

std::vector<transport::Responder*> DataAgentNetwork::responders() {
  std::vector<transport::Responder*> all;
  if (responder_) all.push_back(&*responder_);
  if (rdma_ != nullptr && rdma_->responder() != nullptr) all.push_back(rdma_->responder());
  return all;
}

bool DataAgentNetwork::take_news() noexcept {
  const bool is_outgoing_lost = outgoing_.agent_take_news();
  const bool is_incoming_lost = incoming_.agent_take_news();
  const bool has_rdma_news = rdma_ != nullptr && rdma_->take_news();
  return is_outgoing_lost || is_incoming_lost || has_rdma_news;
}

}  // namespace simm
