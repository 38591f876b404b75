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
// A client waits so long for the end of a dead daemon before it takes its pages back.
constexpr base::TimeNs kDevicesOutliveNs = 90 * kMs;

}  // namespace

TcpNodeEnd::TcpNodeEnd(const Scenario& scenario, Network& network, std::uint32_t node,
                       const cluster::DaemonIdentity& self, const ProcessClock& clock,
                       bool may_have_devices)
    : network_(network),
      node_(node),
      self_(self),
      clock_(clock),
      links_per_shard_(scenario.tcp.links_per_shard),
      io_(network.sockets(), network.sockets().dice().percent(50)),
      roster_(std::make_shared<transport::OwnRoster>(scenario.tcp.requester.links_max +
                                                     scenario.rdma.requester.links_max)),
      mail_(kLinkMessages),
      requester_(scenario.tcp.requester, clock, io_, mover_, *roster_, mail_) {
  io_.wake = [this] { wake(); };
  if (!scenario.rdma.is_used || !may_have_devices) return;
  rdma_ = std::make_unique<RdmaNodePart>(scenario.rdma, network, node, clock, roster_);
  rdma_->wake = [this] { wake(); };
  choice_.emplace(rdma_->requester(), requester_, true);
  network_.set_rdma_node(node, rdma_.get());
}

TcpNodeEnd::~TcpNodeEnd() {
  crash();
}

void TcpNodeEnd::connect(transport::RequesterEvents& events,
                         transport::RegionFaults* faults) noexcept {
  events_ = &events;
  way().connect(*this, faults);
}

void TcpNodeEnd::add_memory(std::span<std::byte> pages) {
  if (rdma_ != nullptr) rdma_->add_memory(pages);
}

// ---- the end ----

// What it had sent by then may still arrive, but for that of a whole machine.
void TcpNodeEnd::crash() {
  if (is_crashed_) return;
  is_crashed_ = true;
  const bool is_silent = network_.sockets().dice().percent(20);
  io_.die(is_silent);
  for (const auto& [serial, wire] : open_) network_.book().give_up(serial);
  if (rdma_ == nullptr) return;
  network_.set_rdma_node(node_, nullptr);
  choice_.reset();
  rdma_->die(is_silent);
  // The devices of a machine go with it.
  const base::TimeNs for_ns =
      is_silent ? 1 : network_.rdma().dice().skewed(10 * kUs, kDevicesOutliveNs);
  network_.rdma().bury(std::move(rdma_), for_ns, [&network = network_, self = self_] {
    network.on_devices_gone(static_cast<std::uint32_t>(self.incarnation.low));
  });
}

// Its devices do not answer it any more.
int TcpNodeEnd::fence_the_rest() {
  const auto left = std::map(open_);
  for (const auto& [serial, wire] : left) on_fenced(serial, transport::FenceCause::collateral);
  return static_cast<int>(left.size());
}

// ---- connections ----

void TcpNodeEnd::add_peer(base::PeerId peer, std::uint16_t shards) {
  peers_[peer] = {};
  Dice& dice = network_.sockets().dice();
  for (std::uint16_t shard = 0; shard < shards; ++shard) {
    for (std::uint32_t link = 0; link < links_per_shard_; ++link) {
      dial_after({peer, shard}, kNoRail, dice.skewed(10 * kUs, 1 * kMs), kPauseFirstNs);
    }
    for (int rail = 0; rdma_ != nullptr && rail < rdma_->rails(); ++rail) {
      dial_after({peer, shard}, rail, dice.skewed(10 * kUs, 1 * kMs), kPauseFirstNs);
    }
  }
}

void TcpNodeEnd::drop_peer(base::PeerId peer) {
  peers_.at(peer).is_wanted = false;
  SIMM_CHECK(mail_.control_drop_peer(peer));
  if (rdma_ != nullptr) rdma_->drop_peer(peer);
  wake();
}

bool TcpNodeEnd::is_rid_of(base::PeerId peer) const {
  const Peer& gone = peers_.at(peer);
  return gone.dials + gone.links == 0;
}

void TcpNodeEnd::dial_after(transport::Route route, int rail, base::TimeNs delay_ns,
                            base::TimeNs pause_ns) {
  ++peers_.at(route.peer).dials;
  network_.loop().after(delay_ns,
                        [this, route, rail, pause_ns, alive = std::weak_ptr<int>(alive_)] {
                          if (!alive.expired() && !is_crashed_) dial(route, rail, pause_ns);
                        });
}

void TcpNodeEnd::dial(transport::Route route, int rail, base::TimeNs pause_ns) {
  Peer& peer = peers_.at(route.peer);
  --peer.dials;
  if (!peer.is_wanted) return;
  const transport::Route to{base::PeerId{resolve(route.peer)}, route.shard};
  // In a run over sockets there is no other kind.
  auto* const server = static_cast<TcpServerEnd*>(network_.listener(to));
  const bool is_reached = server != nullptr && network_.reaches(node_, to.peer.value);
  if (is_reached && rail == kNoRail) {
    connect_socket(route, to, *server);
  } else if (!is_reached || !connect_rail(route, to, rail, *server)) {
    const base::TimeNs delay_ns = network_.sockets().dice().between(pause_ns / 2, pause_ns);
    return dial_after(route, rail, delay_ns, std::min(2 * pause_ns, kPauseLastNs));
  }
  ++peer.links;
}

bool TcpNodeEnd::connect_rail(transport::Route route, transport::Route to, int rail,
                              TcpServerEnd& server) {
  return rdma_->dial(route, to, static_cast<std::uint16_t>(rail), *server.rdma(), self_);
}

// The server's answer to the hello, which makes the link this end's, comes later than the server
// has it.
void TcpNodeEnd::connect_socket(transport::Route route, transport::Route to, TcpServerEnd& server) {
  const ConnectionPtr connection =
      network_.sockets().connect(node_, io_, to.peer.value, server.io());
  if (network_.log().on()) {
    network_.log().line("node %u has link %llu to server %u.%u", node_,
                        static_cast<unsigned long long>(connection->id), to.peer.value, to.shard);
  }
  server.accept(connection, self_);
  const Conditions& c = network_.conditions;
  network_.loop().after(network_.sockets().dice().skewed(c.delay_low_ns, c.delay_high_ns),
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
  link.takes_moved = link.takes_tells = true;
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
    redial({lost.peer, lost.shard}, kNoRail);
  }
}

void TcpNodeEnd::take_ended() {
  for (const RdmaNodePart::Ended& ended : rdma_->take_ended()) redial(ended.route, ended.rail);
}

// A link has ended.
void TcpNodeEnd::redial(transport::Route route, int rail) {
  Peer& peer = peers_.at(route.peer);
  --peer.links;
  if (!peer.is_wanted || is_crashed_) return;
  const Conditions& c = network_.conditions;
  dial_after(route, rail, network_.sockets().dice().skewed(c.reconnect_low_ns, c.reconnect_high_ns),
             kPauseFirstNs);
}

int TcpNodeEnd::do_work() noexcept {
  const int work = is_crashed_ ? requester_.do_work() : way().do_work();
  take_lost();
  if (rdma_ != nullptr) {
    take_ended();
    network_.rdma().kick();
  }
  return is_crashed_ && work == 0 ? fence_the_rest() : work;
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
  const Status status = way().post(route, serial, sent);
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
  if (!is_crashed_) way().cancel(route, serial_of(token));
}

void TcpNodeEnd::abandon(transport::Route route, transport::RequestToken token) noexcept {
  if (!is_crashed_) way().abandon(route, serial_of(token));
}

void TcpNodeEnd::reset(transport::Route route, transport::RequestToken culprit) noexcept {
  if (!is_crashed_) way().reset(route, serial_of(culprit));
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
  // What waits for a link, and is not wanted any more, its requester itself answers.
  const bool is_taken_back = std::all_of(pages.begin(), pages.end(), [](const auto& page) {
    return page.status == Status::cancelled;
  });
  if (!wire->answered && !(rdma_ != nullptr && is_taken_back)) {
    network_.report().violation("seam", "request %llu has an answer, but not of its server",
                                static_cast<unsigned long long>(serial));
  }
  if (wire->answered) {
    network_.book().answered(serial);
  } else {
    network_.book().give_up(serial);
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
