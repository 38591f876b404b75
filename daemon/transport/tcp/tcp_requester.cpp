#include "daemon/transport/tcp/tcp_requester.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::transport {

TcpRequester::TcpRequester(const TcpRequesterConfig& config, const base::Clock& clock, SocketIo& io,
                           Mover& mover, OwnRoster& links, TcpLinkMailbox& mailbox,
                           const TcpCounters& counters)
    : config_(config),
      shared_{config_, clock, io, counters, mover, links},
      links_(config.links_max, shared_, mailbox) {}

void TcpRequester::connect(RequesterEvents& events, RegionFaults* faults) noexcept {
  shared_.events = &events;
  shared_.faults = faults;
}

// ---- requests ----

// Null also where no more than `keep` credits are free on all links of the route.
RequesterLink* TcpRequester::least_loaded(Route route, std::uint32_t keep,
                                          bool& is_reachable) noexcept {
  RequesterLink* best = nullptr;
  std::uint32_t credits = 0;
  is_reachable = false;
  links_.each_on(route, [&](RequesterLink& link) {
    if (!link.path().is_open()) return;
    is_reachable = true;
    credits += link.credits();
    if (link.credits() == 0) return;
    if (best == nullptr || link.in_flight() < best->in_flight()) best = &link;
  });
  return credits > keep ? best : nullptr;
}

Status TcpRequester::post(Route route, RequestToken token, const Request& request) noexcept {
  SIMM_CHECK(!request.pages.empty() && request.pages.size() <= ipc::kPagesPerSubmissionMax);
  bool is_reachable = false;
  RequesterLink* const link = least_loaded(route, request.credits_keep, is_reachable);
  if (link == nullptr) return is_reachable ? Status::no_space : Status::unreachable;
  if (request.header.is_moved) {
    const TcpLink& to = link->path().link();
    const bool is_put = request.header.opcode == ipc::Opcode::put;
    if (!(is_put ? to.takes_moved : to.takes_tells)) return Status::unsupported;
  }
  link->post(token, request);
  has_posted_ = true;
  return Status::ok;
}

void TcpRequester::cancel(Route, RequestToken token) noexcept {
  for (const auto& link : links_.used()) {
    if (link->cancel(token)) break;
  }
  has_posted_ = true;
}

void TcpRequester::abandon(Route, RequestToken token) noexcept {
  for (const auto& link : links_.used()) {
    if (link->abandon(token)) break;
  }
  has_posted_ = true;
}

void TcpRequester::reset(Route, RequestToken culprit) noexcept {
  for (const auto& link : links_.used()) {
    if (link->reset(culprit)) break;
  }
  has_posted_ = true;
}

std::uint64_t TcpRequester::moved(Route route) const noexcept {
  std::uint64_t moved = 0;
  links_.each_on(route, [&](const RequesterLink& link) { moved += link.moved(); });
  return moved;
}

// ---- turns ----

int TcpRequester::do_work() noexcept {
  has_posted_ = false;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  int work = take_links();
  if (work == 0 && links_.used().empty() && config_.is_io_polled) {
    turn_ns_ = now_ns;
    return links_.finish_closing();
  }
  work += shared_.mover.do_work();
  work += links_.run(now_ns);
  check_lives(now_ns);
  return work + links_.finish_closing();
}

void TcpRequester::check_lives(base::TimeNs now_ns) noexcept {
  // While we were stopped ourselves, or had no CPU, the silence was ours: that time is not counted.
  // An agent that sleeps until next_deadline_ns() is not away.
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_detection_ns);
  turn_ns_ = now_ns;
  for (const auto& link : links_.used()) {
    link->path().forgive(away_ns, now_ns);
    const RequesterLink::Life life = link->check_life(now_ns);
    if (life != RequesterLink::Life::well) probe_others(link->path().link().peer, now_ns);
    if (life == RequesterLink::Life::silent) end_silent(*link, now_ns);
  }
}

void TcpRequester::probe_others(base::PeerId peer, base::TimeNs now_ns) noexcept {
  for (const auto& link : links_.used()) {
    if (link->path().link().peer == peer) link->probe(now_ns);
  }
}

// One link alone may be silent because the network lost its packets twice: the peer is not dead for
// it while another of its links is heard.
void TcpRequester::end_silent(RequesterLink& silent, base::TimeNs now_ns) noexcept {
  TcpConnection& connection = silent.path();
  const base::PeerId peer = connection.link().peer;
  const base::TimeNs detection_ns = config_.peer_detection_ns;
  const bool is_heard = std::ranges::any_of(links_.used(), [&](const auto& link) {
    const TcpConnection& other = link->path();
    return &other != &connection && other.is_open() && other.link().peer == peer &&
           now_ns < other.received_ns + detection_ns;
  });
  if (!is_heard) {
    links_.drop_peer(peer, LinkLoss::silent);
  } else if (now_ns >= connection.heard_ns + kSilentLinkTimes * detection_ns) {
    connection.fail(LinkLoss::silent);
  }
}

base::TimeNs TcpRequester::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = base::kNoDeadline;
  for (const auto& link : links_.used()) next_ns = std::min(next_ns, link->next_deadline_ns());
  return next_ns;
}

}  // namespace simm::transport
