#include "tests/sim/rdma_node_part.h"

#include <utility>

#include "simm/check.h"
#include "tests/sim/rdma/sim_rdma_port.h"
#include "tests/sim/rdma_server_part.h"
#include "tests/sim/tcp_server_end.h"
#include "tests/support/link_keys.h"

namespace simm::sim {
namespace {

std::vector<std::unique_ptr<SimRdmaDevice>> make_devices(const RdmaScenario& scenario,
                                                         Network& network, std::uint32_t node) {
  std::vector<std::unique_ptr<SimRdmaDevice>> devices(scenario.rails);
  for (auto& device : devices) network.rdma().add_device(true, node, device);
  return devices;
}

transport::RdmaPorts make_ports(const std::vector<std::unique_ptr<SimRdmaDevice>>& devices,
                                std::uint32_t links_max) {
  transport::RdmaPorts ports;
  for (const auto& device : devices) {
    ports.push_back(transport::make_rdma_port(*device, links_max).value());
  }
  return ports;
}

}  // namespace

RdmaNodePart::RdmaNodePart(const RdmaScenario& scenario, Network& network, std::uint32_t node,
                           const ProcessClock& clock, std::shared_ptr<transport::OwnRoster> roster)
    : network_(network),
      node_(node),
      clock_(clock),
      roster_(std::move(roster)),
      devices_(make_devices(scenario, network, node)),
      ports_(make_ports(devices_, scenario.requester.links_max)) {
  requester_.emplace(scenario.requester, clock_, transport::pointers_to(ports_), keys_, mover_,
                     *roster_, mail_);
  for (const auto& port : ports_) {
    static_cast<SimRdmaPort&>(*port).on_completion = [this] { wake(); };
  }
}

RdmaNodePart::~RdmaNodePart() {
  for (const auto& device : devices_) network_.rdma().forget(device.get());
}

void RdmaNodePart::add_memory(std::span<std::byte> pages) {
  RdmaNetwork& rdma = network_.rdma();
  for (std::uint16_t rail = 0; rail < rails(); ++rail) {
    const base::TimeNs delay_ns = rdma.dice().percent(50) ? 0 : rdma.dice().skewed(0, 20 * kMs);
    network_.loop().after(delay_ns, [this, rail, pages, alive = std::weak_ptr<int>(alive_)] {
      if (alive.expired()) return;
      keys_.add(rail, *devices_[rail], pages, transport::RemoteAccess::read_write);
    });
  }
}

// ---- links ----

bool RdmaNodePart::dial(transport::Route route, transport::Route to, std::uint16_t rail,
                        RdmaServerPart& server, const cluster::DaemonIdentity& self) {
  auto asking = transport::make_rdma_link(*devices_[rail], *ports_[rail], true);
  auto serving = server.make_link();
  if (!asking || serving == nullptr) return false;
  transport::RdmaLink& own = **asking;
  SIMM_CHECK(serving->queue_pair->connect(own.queue_pair->address()).has_value());
  SIMM_CHECK(own.queue_pair->connect(serving->queue_pair->address()).has_value());
  const std::uint64_t link = network_.rdma().begin_link(node_, to);
  own.link = serving->link = link;
  own.peer = route.peer;
  own.shard = serving->shard = route.shard;
  own.rail = rail;
  own.keys = support::requester_keys(link);
  serving->peer = base::PeerId{node_};
  serving->keys = support::server_keys(link);
  server.accept(std::move(serving), self);
  known_[link] = {route, to, rail};
  greeted_[link] = std::move(*asking);
  const Conditions& c = network_.conditions;
  network_.loop().after(network_.rdma().dice().skewed(c.delay_low_ns, c.delay_high_ns),
                        [this, link, alive = std::weak_ptr<int>(alive_)] {
                          if (alive.expired() || greeted_.count(link) == 0) return;
                          SIMM_CHECK(mail_.control_add(greeted_.at(link)));
                          greeted_.erase(link);
                          wake();
                        });
  return true;
}

void RdmaNodePart::drop_link(std::uint64_t link) {
  if (known_.count(link) == 0) return;
  SIMM_CHECK(mail_.control_drop_link(link));
  wake();
}

void RdmaNodePart::drop_peer(base::PeerId peer) {
  SIMM_CHECK(mail_.control_drop_peer(peer));
  wake();
}

std::vector<RdmaNodePart::Ended> RdmaNodePart::take_ended() {
  std::vector<Ended> all;
  while (const auto ended = mail_.control_take_ended()) {
    const auto found = known_.find(ended->link);
    SIMM_CHECK(found != known_.end());
    const Known known = found->second;
    if (network_.log().on()) {
      network_.log().line("node %u has lost queue pair %llu, cause %d", node_,
                          static_cast<unsigned long long>(ended->link), int(ended->loss));
    }
    known_.erase(found);
    tell_server(ended->link, known.to);
    all.push_back({known.route, known.rail});
  }
  return all;
}

// Now and then the other daemon's control thread has other things to do.
void RdmaNodePart::tell_server(std::uint64_t link, transport::Route to) {
  RdmaNetwork& rdma = network_.rdma();
  const base::TimeNs notice_ns =
      rdma.dice().percent(50) ? rdma.dice().between(50 * kMs, 1 * kSecond) : rdma.draw_notice_ns();
  network_.loop().after(notice_ns, [&network = network_, link, to] {
    // In a run over queue pairs there is no other kind.
    auto* const server = static_cast<TcpServerEnd*>(network.listener(to));
    if (server != nullptr) server->rdma()->drop_link(link);
  });
}

void RdmaNodePart::end_queue_pairs() {
  requester_.reset();
  greeted_.clear();
  const auto drop = [](std::unique_ptr<transport::RdmaLink>) {};
  while (mail_.agent_take(
      drop, [](base::PeerId) {}, [](std::uint64_t) {})) {
  }
}

void RdmaNodePart::die(bool is_silent) {
  wake = [] {};
  for (const auto& device : devices_) network_.rdma().hold_back(*device);
  if (is_silent) return;
  for (const auto& [link, known] : known_) tell_server(link, known.to);
}

}  // namespace simm::sim
