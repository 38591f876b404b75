#include "daemon/agent/data_agent_rdma.h"

#include <algorithm>
#include <utility>

#include "daemon/transport/payload_progress.h"

namespace simm {
namespace {

// More than there can be links, and a power of two.
constexpr std::size_t kRdmaLinkMessages = 8 * DataAgentRdma::kRdmaLinksMax;

transport::RdmaRequesterConfig rdma_requester_config(const base::Config& config,
                                                     const base::TenantWeights& weights,
                                                     std::vector<transport::RailTraits> traits) {
  transport::RdmaRequesterConfig result;
  result.links_max = DataAgentRdma::kRdmaLinksMax;
  result.credits = DataAgentRdma::kCredits;
  result.peer_detection_ns = config.cluster.detection_ms * base::kNsPerMs;
  result.inline_page_bytes = config.rdma.inline_bytes;
  result.rails = std::move(traits);
  result.weights = weights;
  return result;
}

transport::RdmaResponderConfig rdma_responder_config(const base::Config& config,
                                                     const base::TenantWeights& weights) {
  transport::RdmaResponderConfig result;
  result.links_max = DataAgentRdma::kRdmaLinksMax;
  result.credits = DataAgentRdma::kCredits;
  const base::TimeNs detection_ns = config.cluster.detection_ms * base::kNsPerMs;
  result.peer_silence_ns = std::max(result.peer_silence_ns, transport::silence_after(detection_ns));
  result.payload_time_ns_max = detection_ns / 12;
  result.inline_page_bytes = config.rdma.inline_bytes;
  result.weights = weights;
  return result;
}

}  // namespace

DataAgentRdma::DataAgentRdma(base::Waiter& waiter)
    : waiter_(waiter),
      outgoing_(kRdmaLinkMessages, &waiter),
      incoming_(kRdmaLinkMessages, &waiter) {}

Expected<std::unique_ptr<DataAgentRdma>> DataAgentRdma::make(const Setup& setup) {
  std::unique_ptr<DataAgentRdma> made(new DataAgentRdma(setup.waiter));
  Outcome done = Done{};
  if (setup.tcp != nullptr) done = made->make_ports(setup, made->asking_);
  if (done && setup.serves) done = made->make_ports(setup, made->serving_);
  if (!done) return std::move(done).error();
  if (setup.tcp != nullptr) {
    made->requester_.emplace(rdma_requester_config(setup.config, setup.weights, setup.traits),
                             setup.clock, transport::pointers_to(made->asking_), setup.keys,
                             setup.mover, setup.links, made->outgoing_, setup.counters);
    made->choice_.emplace(*made->requester_, *setup.tcp,
                          setup.config.rdma.mode != base::RdmaMode::require);
  }
  if (setup.serves) {
    made->responder_.emplace(rdma_responder_config(setup.config, setup.weights), setup.clock,
                             transport::pointers_to(made->serving_), setup.keys, setup.rosters,
                             made->incoming_, setup.counters);
  }
  return made;
}

Outcome DataAgentRdma::make_ports(const Setup& setup, transport::RdmaPorts& ports) {
  for (transport::RdmaDevice* rail : setup.rails) {
    auto port = transport::make_rdma_port(*rail, kRdmaLinksMax);
    if (!port) return std::move(port).error();
    Outcome watched = waiter_.watch((*port)->event_descriptor(), *this);
    if (!watched) return watched;
    ports.push_back(std::move(*port));
  }
  return Done{};
}

DataAgentRdma::~DataAgentRdma() {
  for (const transport::RdmaPorts* ports : {&asking_, &serving_}) {
    for (const auto& port : *ports) waiter_.unwatch(port->event_descriptor());
  }
}

bool DataAgentRdma::take_news() noexcept {
  const bool has_outgoing_ended = outgoing_.agent_take_news();
  const bool has_incoming_ended = incoming_.agent_take_news();
  return has_outgoing_ended || has_incoming_ended;
}

control::AgentQueuePairs DataAgentRdma::queue_pairs() noexcept {
  control::AgentQueuePairs ends;
  ends.room = kRdmaLinksMax;
  if (requester_) ends.outgoing = &outgoing_;
  if (responder_) ends.incoming = &incoming_;
  ends.asking = transport::pointers_to(asking_);
  ends.serving = transport::pointers_to(serving_);
  return ends;
}

}  // namespace simm
