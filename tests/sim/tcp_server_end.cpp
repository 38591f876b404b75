#include "tests/sim/tcp_server_end.h"

#include <utility>

#include "simm/check.h"
#include "tests/support/link_keys.h"

namespace simm::sim {

TcpServerEnd::TcpServerEnd(const TcpScenario& scenario, Network& network, transport::Route route,
                           const base::Clock& clock)
    : network_(network),
      route_(route),
      errors_(clock),
      daemons_(errors_),
      io_(network.sockets(), network.sockets().dice().percent(50)),
      rosters_(scenario.responder.links_max),
      mail_(kLinkMessages),
      responder_(scenario.responder, clock, io_, rosters_, mail_) {
  responder_.connect(*this);
  io_.wake = [this] { wake(); };
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

void TcpServerEnd::crash() {
  if (is_crashed_) return;
  is_crashed_ = true;
  network_.listen(route_, nullptr);
  io_.die(false);
  // What it has under way ends in its last turns.
  for (int turns = 0; !active_.empty(); ++turns) {
    SIMM_CHECK(turns < 1000);
    responder_.do_work();
  }
}

// ---- turns ----

int TcpServerEnd::do_work() noexcept {
  const int work = responder_.do_work();
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

// ---- what passes ----

TcpServerEnd::Active* TcpServerEnd::active_of(transport::Incoming& incoming, const char* what) {
  const auto found = active_.find(&incoming);
  if (found != active_.end()) return &found->second;
  network_.report().violation("seam", "%s for a request that is over", what);
  return nullptr;
}

void TcpServerEnd::on_request(transport::Incoming& incoming) noexcept {
  const WireRequestPtr wire = network_.book().arrive(incoming.header.trace_id);
  if (wire == nullptr) return;  // the run is over
  wire->server_epochs.assign(wire->pages.size(), map_epoch);
  incoming.responder = this;
  active_[&incoming] = {wire};
  events_->on_request(incoming);
}

void TcpServerEnd::on_moved(transport::Incoming& incoming, std::uint16_t page,
                            transport::MoveResult result) noexcept {
  Active* const active = active_of(incoming, "the end of a move");
  if (active == nullptr) return;
  if (incoming.header.opcode == ipc::Opcode::put) active->wire->server_epochs[page] = map_epoch;
  events_->on_moved(incoming, page, result);
}

void TcpServerEnd::on_cancel(transport::Incoming& incoming) noexcept {
  Active* const active = active_of(incoming, "a cancel");
  if (active == nullptr) return;
  active->is_cancelled = true;
  events_->on_cancel(incoming);
}

void TcpServerEnd::on_aborted(transport::Incoming& incoming) noexcept {
  Active* const active = active_of(incoming, "an abort");
  if (active == nullptr) return;
  const std::uint64_t serial = active->wire->serial;
  active_.erase(&incoming);
  events_->on_aborted(incoming);
  network_.book().end(serial);
}

void TcpServerEnd::pull(transport::Incoming& incoming, std::uint16_t page,
                        std::span<std::byte> extent) noexcept {
  const Active* const active = active_of(incoming, "a pull");
  if (active == nullptr) return;
  if (active->is_cancelled) network_.report().violation("seam", "a move begins after the cancel");
  responder_.pull(incoming, page, extent);
}

void TcpServerEnd::push(transport::Incoming& incoming, std::uint16_t page,
                        std::span<const std::byte> bytes, bool whole_digest) noexcept {
  const Active* const active = active_of(incoming, "a push");
  if (active == nullptr) return;
  if (active->is_cancelled) network_.report().violation("seam", "a move begins after the cancel");
  active->wire->server_epochs[page] = map_epoch;
  responder_.push(incoming, page, bytes, whole_digest);
}

void TcpServerEnd::reply(transport::Incoming& incoming,
                         std::span<const transport::PageReply> pages) noexcept {
  const Active* const active = active_of(incoming, "an answer");
  if (active == nullptr) return;
  const WireRequestPtr wire = active->wire;
  active_.erase(&incoming);
  if (!is_crashed_) {
    network_.log_reply(*wire, pages);
    wire->answered = true;
    if (network_.tap != nullptr) network_.tap->on_answered(*wire, pages);
  }
  network_.book().end(wire->serial);
  responder_.reply(incoming, pages);
}

}  // namespace simm::sim
