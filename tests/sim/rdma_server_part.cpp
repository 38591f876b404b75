#include "tests/sim/rdma_server_part.h"

#include <utility>

#include "daemon/transport/rdma/rdma_ports.h"
#include "simm/check.h"
#include "tests/sim/rdma/sim_rdma_port.h"
#include "tests/sim/rdma_node_part.h"

namespace simm::sim {
namespace {

std::unique_ptr<SimRdmaDevice> make_device(Network& network, transport::Route route) {
  std::unique_ptr<SimRdmaDevice> device;
  network.rdma().add_device(false, route.peer.value, device);
  return device;
}

}  // namespace

RdmaServerPart::RdmaServerPart(const RdmaScenario& scenario, Network& network,
                               transport::Route route, const base::Clock& clock,
                               std::span<std::byte> arena, transport::RequesterRosters& rosters,
                               control::AskingDaemons& daemons, transport::ResponderEvents& events)
    : network_(network),
      route_(route),
      daemons_(daemons),
      device_(make_device(network, route)),
      port_(transport::make_rdma_port(*device_, scenario.responder.links_max).value()),
      responder_(scenario.responder, clock, {port_.get()}, keys_, rosters, mail_) {
  keys_.add(0, *device_, arena, transport::RemoteAccess::none);
  responder_.connect(events);
  static_cast<SimRdmaPort&>(*port_).on_completion = [this] { wake(); };
}

RdmaServerPart::~RdmaServerPart() {
  network_.rdma().forget(device_.get());
  for (const auto& [link, known] : known_) network_.rdma().end_link(link);
}

std::unique_ptr<transport::RdmaLink> RdmaServerPart::make_link() {
  auto made = transport::make_rdma_link(*device_, *port_, false);
  return made ? std::move(*made) : nullptr;
}

void RdmaServerPart::accept(std::unique_ptr<transport::RdmaLink> link,
                            const cluster::DaemonIdentity& dialler) {
  cluster::HelloResult hello;
  hello.peer = dialler;
  const auto greeted = daemons_.greet(hello);
  SIMM_CHECK(greeted.has_value());
  link->owner = greeted->owner;
  known_[link->link] = {link->peer.value, *greeted};
  SIMM_CHECK(mail_.control_add(link));
  wake();
}

void RdmaServerPart::drop_link(std::uint64_t link) {
  if (known_.count(link) == 0) return;
  SIMM_CHECK(mail_.control_drop_link(link));
  wake();
}

void RdmaServerPart::take_ended() {
  while (const auto ended = mail_.control_take_ended()) {
    const auto found = known_.find(ended->link);
    SIMM_CHECK(found != known_.end());
    if (network_.log().on()) {
      network_.log().line("server %u.%u has lost queue pair %llu, cause %d", route_.peer.value,
                          route_.shard, static_cast<unsigned long long>(ended->link),
                          int(ended->loss));
    }
    const std::uint32_t node = found->second.node;
    known_.erase(found);
    network_.rdma().end_link(ended->link);
    tell_node(ended->link, node);
  }
}

void RdmaServerPart::tell_node(std::uint64_t link, std::uint32_t node) {
  network_.loop().after(network_.rdma().draw_notice_ns(), [&network = network_, link, node] {
    RdmaNodePart* const part = network.rdma_node(node);
    if (part != nullptr) part->drop_link(link);
  });
}

void RdmaServerPart::tell_nodes() {
  for (const auto& [link, known] : known_) tell_node(link, known.node);
}

}  // namespace simm::sim
