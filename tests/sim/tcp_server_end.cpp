#include "tests/sim/tcp_server_end.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"
#include "tests/support/link_keys.h"

namespace simm::sim {

TcpServerEnd::TcpServerEnd(const Scenario& scenario, Network& network, transport::Route route,
                           const base::Clock& clock, std::span<std::byte> arena)
    : network_(network),
      route_(route),
      errors_(clock),
      daemons_(errors_),
      tap_(network, map_epoch, Carrier::sockets),
      rdma_tap_(network, map_epoch, Carrier::queue_pairs),
      io_(network.sockets(), network.sockets().dice().percent(50)),
      rosters_(scenario.tcp.responder.links_max + scenario.rdma.responder.links_max),
      mail_(kLinkMessages),
      responder_(scenario.tcp.responder, clock, io_, rosters_, mail_) {
  responder_.connect(tap_);
  io_.wake = [this] { wake(); };
  if (scenario.rdma.is_used) {
    rdma_ = std::make_unique<RdmaServerPart>(scenario.rdma, network, route, clock, arena, rosters_,
                                             daemons_, rdma_tap_);
    rdma_->wake = [this] { wake(); };
  }
  network_.listen(route_, this);
}

TcpServerEnd::~TcpServerEnd() {
  crash();
}

void TcpServerEnd::accept(const ConnectionPtr& connection, const cluster::DaemonIdentity& dialler) {
  cluster::HelloResult hello;
  hello.peer = dialler;
  const auto greeted = daemons_.greet(hello);
  SIMM_CHECK(greeted.has_value());
  transport::TcpLink link;
  link.socket = ipc::UniqueFd(connection->ends[SimConnection::kServer].descriptor);
  link.peer = base::PeerId{connection->node};
  link.shard = route_.shard;
  link.link = connection->id;
  link.owner = greeted->owner;
  link.keys = support::server_keys(connection->id);
  SIMM_CHECK(mail_.control_add(link));
  askers_.emplace(connection->id, *greeted);
  connections_[connection->id] = connection;
  wake();
}

// ---- the end ----

void TcpServerEnd::lose_network(bool silent) {
  io_.die(silent);
  if (rdma_ != nullptr && !silent) rdma_->tell_nodes();
}

void TcpServerEnd::crash() {
  if (is_crashed_) return;
  is_crashed_ = true;
  network_.listen(route_, nullptr);
  io_.die(false);
  tap_.deafen();
  rdma_tap_.deafen();
  rdma_tap_.abort_all();
  rdma_.reset();
  // What it has under way ends in its last turns.
  for (int turns = 0; tap_.active() > 0; ++turns) {
    SIMM_CHECK(turns < 1000);
    responder_.do_work();
  }
}

// ---- turns ----

int TcpServerEnd::do_work() noexcept {
  int work = responder_.do_work();
  if (rdma_ != nullptr) {
    work += rdma_->responder().do_work();
    rdma_->take_ended();
    network_.rdma().kick();
  }
  transport::LinkLost lost;
  while (mail_.control_take_lost(lost)) {
    if (network_.log().on()) {
      network_.log().line("server %u.%u has lost link %llu, cause %d", route_.peer.value,
                          route_.shard, static_cast<unsigned long long>(lost.link),
                          int(lost.cause));
    }
    const auto found = connections_.find(lost.link);
    // One that was refused was never opened.
    network_.sockets().close(found->second, SimConnection::kServer);
    connections_.erase(found);
    askers_.erase(lost.link);
  }
  return work;
}

void TcpServerEnd::drop_all() noexcept {
  responder_.drop_all();
  if (rdma_ != nullptr) rdma_->responder().drop_all();
}

int TcpServerEnd::run_moves() noexcept {
  return responder_.run_moves() + (rdma_ == nullptr ? 0 : rdma_->responder().run_moves());
}

base::TimeNs TcpServerEnd::next_deadline_ns() const noexcept {
  const base::TimeNs next_ns = responder_.next_deadline_ns();
  return rdma_ == nullptr ? next_ns : std::min(next_ns, rdma_->responder().next_deadline_ns());
}

}  // namespace simm::sim
