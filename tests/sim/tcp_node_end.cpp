#include "tests/sim/tcp_node_end.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"
#include "tests/sim/tcp_server_end.h"
#include "tests/support/link_keys.h"

namespace simm::sim {
namespace {

// Between two tries to reach who does not answer.
constexpr base::TimeNs kPauseFirstNs = 1 * kMs;
constexpr base::TimeNs kPauseLastNs = 100 * kMs;

}  // namespace

TcpNodeEnd::TcpNodeEnd(const TcpScenario& scenario, Network& network, std::uint32_t node,
                       const cluster::DaemonIdentity& self, const base::Clock& clock)
    : network_(network),
      node_(node),
      self_(self),
      clock_(clock),
      links_per_shard_(scenario.links_per_shard),
      io_(network.sockets(), network.sockets().dice().percent(50)),
      roster_(scenario.requester.links_max),
      mail_(kLinkMessages),
      requester_(scenario.requester, clock, io_, mover_, roster_, mail_) {
  io_.wake = [this] { wake(); };
}

TcpNodeEnd::~TcpNodeEnd() {
  crash();
}

void TcpNodeEnd::connect(transport::RequesterEvents& events,
                         transport::RegionFaults* faults) noexcept {
  events_ = &events;
  requester_.connect(*this, faults);
}

// What it had sent by then may still arrive, but for that of a whole machine.
void TcpNodeEnd::crash() {
  if (is_crashed_) return;
  is_crashed_ = true;
  io_.die(network_.sockets().dice().percent(20));
  for (const auto& [serial, wire] : open_) network_.book().give_up(serial);
}

// ---- connections ----

void TcpNodeEnd::add_peer(base::PeerId peer, std::uint16_t shards) {
  peers_[peer] = {};
  for (std::uint16_t shard = 0; shard < shards; ++shard) {
    for (std::uint32_t link = 0; link < links_per_shard_; ++link) {
      dial_after({peer, shard}, network_.sockets().dice().skewed(10 * kUs, 1 * kMs), kPauseFirstNs);
    }
  }
}

void TcpNodeEnd::drop_peer(base::PeerId peer) {
  peers_.at(peer).is_wanted = false;
  SIMM_CHECK(mail_.control_drop_peer(peer));
  wake();
}

bool TcpNodeEnd::is_rid_of(base::PeerId peer) const {
  const Peer& gone = peers_.at(peer);
  return gone.dials + gone.links == 0;
}

void TcpNodeEnd::dial_after(transport::Route route, base::TimeNs delay_ns, base::TimeNs pause_ns) {
  ++peers_.at(route.peer).dials;
  network_.loop().after(delay_ns, [this, route, pause_ns, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && !is_crashed_) dial(route, pause_ns);
  });
}

// The server's answer to the hello, which makes the link this end's, comes later than the server
// has it.
void TcpNodeEnd::dial(transport::Route route, base::TimeNs pause_ns) {
  Peer& peer = peers_.at(route.peer);
  --peer.dials;
  if (!peer.is_wanted) return;
  const transport::Route to{base::PeerId{resolve(route.peer)}, route.shard};
  // In a run over sockets there is no other kind.
  auto* const server = static_cast<TcpServerEnd*>(network_.listener(to));
  Dice& dice = network_.sockets().dice();
  if (server == nullptr || !network_.reaches(node_, to.peer.value)) {
    const base::TimeNs delay_ns = dice.between(pause_ns / 2, pause_ns);
    return dial_after(route, delay_ns, std::min(2 * pause_ns, kPauseLastNs));
  }
  const ConnectionPtr connection =
      network_.sockets().connect(node_, io_, to.peer.value, server->io());
  if (network_.log().on()) {
    network_.log().line("node %u has link %llu to server %u.%u", node_,
                        static_cast<unsigned long long>(connection->id), to.peer.value, to.shard);
  }
  server->accept(connection, self_);
  ++peer.links;
  const Conditions& c = network_.conditions;
  network_.loop().after(dice.skewed(c.delay_low_ns, c.delay_high_ns),
                        [this, route, connection, alive = std::weak_ptr<int>(alive_)] {
                          if (!alive.expired() && !is_crashed_) take_link(route, connection);
                        });
}

void TcpNodeEnd::take_link(transport::Route route, const ConnectionPtr& connection) {
  transport::TcpLink link;
  link.socket = ipc::UniqueFd(connection->ends[SimConnection::kNode].descriptor);
  link.peer = route.peer;
  link.shard = route.shard;
  link.link = connection->id;
  link.keys = support::requester_keys(connection->id);
  connections_[connection->id] = connection;
  SIMM_CHECK(mail_.control_add(link));
  // It was dropped while the hello was under way.
  if (!peers_.at(route.peer).is_wanted) SIMM_CHECK(mail_.control_drop_peer(route.peer));
  wake();
}

void TcpNodeEnd::take_lost() {
  transport::LinkLost lost;
  while (mail_.control_take_lost(lost)) {
    if (network_.log().on()) {
      network_.log().line("node %u has lost link %llu, cause %d", node_,
                          static_cast<unsigned long long>(lost.link), int(lost.cause));
    }
    const auto found = connections_.find(lost.link);
    // One that was refused was never opened.
    network_.sockets().close(found->second, SimConnection::kNode);
    connections_.erase(found);
    Peer& peer = peers_.at(lost.peer);
    --peer.links;
    if (!peer.is_wanted || is_crashed_) continue;
    const Conditions& c = network_.conditions;
    Dice& dice = network_.sockets().dice();
    dial_after({lost.peer, lost.shard}, dice.skewed(c.reconnect_low_ns, c.reconnect_high_ns),
               kPauseFirstNs);
  }
}

int TcpNodeEnd::do_work() noexcept {
  const int work = requester_.do_work();
  take_lost();
  return work;
}

// ---- what passes ----

std::uint64_t TcpNodeEnd::serial_of(transport::RequestToken token) const {
  const auto found = serials_.find(token);
  return found == serials_.end() ? 0 : found->second;
}

Status TcpNodeEnd::post(transport::Route route, transport::RequestToken token,
                        const transport::Request& request) noexcept {
  if (is_crashed_) return Status::unreachable;
  if (serials_.count(token) > 0) network_.report().violation("seam", "token posted twice");
  transport::Request sent = request;
  const std::uint64_t serial = network_.next_serial();
  sent.header.trace_id = serial;
  const Status status = requester_.post(route, serial, sent);
  if (status != Status::ok) return status;
  const WireRequestPtr wire = WireRequest::of(token, request, clock_.now_ns());
  wire->serial = serial;
  wire->node = node_;
  wire->to = {base::PeerId{resolve(route.peer)}, route.shard};
  wire->posted_ns = network_.loop().now_ns();
  open_[serial] = wire;
  serials_[token] = serial;
  network_.book().post(wire);
  if (network_.tap != nullptr) network_.tap->on_posted(node_, *wire);
  network_.log_post(*wire);
  network_.on_posted(*wire);
  return Status::ok;
}

void TcpNodeEnd::cancel(transport::Route route, transport::RequestToken token) noexcept {
  requester_.cancel(route, serial_of(token));
}

void TcpNodeEnd::abandon(transport::Route route, transport::RequestToken token) noexcept {
  requester_.abandon(route, serial_of(token));
}

void TcpNodeEnd::reset(transport::Route route, transport::RequestToken culprit) noexcept {
  requester_.reset(route, serial_of(culprit));
}

WireRequestPtr TcpNodeEnd::end(std::uint64_t serial) {
  const auto found = open_.find(serial);
  if (found == open_.end()) {
    network_.report().violation("seam", "request %llu ends twice",
                                static_cast<unsigned long long>(serial));
    return nullptr;
  }
  WireRequestPtr wire = found->second;
  open_.erase(found);
  serials_.erase(wire->token);
  return wire;
}

void TcpNodeEnd::on_reply(transport::RequestToken serial,
                          std::span<const transport::PageReply> pages) noexcept {
  const WireRequestPtr wire = end(serial);
  if (wire == nullptr) return;
  if (!wire->answered) {
    network_.report().violation("seam", "request %llu has an answer, but not of its server",
                                static_cast<unsigned long long>(serial));
  }
  events_->on_reply(wire->token, pages);
}

void TcpNodeEnd::on_fenced(transport::RequestToken serial, transport::FenceCause cause) noexcept {
  const WireRequestPtr wire = end(serial);
  if (wire == nullptr) return;
  network_.book().give_up(serial);
  events_->on_fenced(wire->token, cause);
}

}  // namespace simm::sim
