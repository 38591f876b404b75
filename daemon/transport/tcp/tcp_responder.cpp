#include "daemon/transport/tcp/tcp_responder.h"

#include <algorithm>

namespace simm::transport {

namespace {

TcpIncoming& tcp_incoming(Incoming& incoming) noexcept {
  // SAFETY: every Incoming that this responder hands out is a TcpIncoming.
  return static_cast<TcpIncoming&>(incoming);
}

}  // namespace

TcpResponder::TcpResponder(const TcpResponderConfig& config, const base::Clock& clock, SocketIo& io,
                           RequesterRosters& rosters, TcpLinkMailbox& mailbox,
                           const TcpCounters& counters)
    : config_(config),
      shared_{config_, clock, io, counters, rosters, this},
      links_(config.links_max, shared_, mailbox) {
  rosters.add_listener(*this);
}

// ---- the server's calls ----

void TcpResponder::pull(Incoming& incoming, std::uint16_t page,
                        std::span<std::byte> extent) noexcept {
  TcpIncoming& tcp = tcp_incoming(incoming);
  has_orders_ = true;
  tcp.link->pull(tcp, page, extent);
}

// The digest is taken in any case: the requester compares it.
void TcpResponder::push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
                        bool) noexcept {
  TcpIncoming& tcp = tcp_incoming(incoming);
  has_orders_ = true;
  tcp.link->push(tcp, page, bytes);
}

void TcpResponder::reply(Incoming& incoming, std::span<const PageReply> pages) noexcept {
  TcpIncoming& tcp = tcp_incoming(incoming);
  has_orders_ = true;
  tcp.link->reply(tcp, pages);
}

// ---- turns ----

int TcpResponder::do_work() noexcept {
  int work = links_.take_mail([this](const TcpLink& link) { shared_.rosters.meet(link.owner); });
  const base::TimeNs now_ns = shared_.clock.now_ns();
  work += run_moves();
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_silence_ns);
  turn_ns_ = now_ns;
  const bool is_short = links_.is_short();
  for (const auto& link : links_.used()) {
    // A requester that waits for nothing may be silent, once it has said who it is.
    link->forgive(away_ns, now_ns);
    const bool is_mute = now_ns >= link->roster_due_ns(is_short);
    if (is_mute || link->is_overdue(now_ns)) link->connection().fail(LinkLoss::silent);
    if (link->is_stalled(now_ns)) link->connection().fail(LinkLoss::stalled);
  }
  return work + links_.finish_closing([this](const ResponderLink& over) {
    if (over.requester() != 0) shared_.rosters.leave(over.requester());
  });
}

// What a link that was given up still carries must not be done behind what is asked for now.
void TcpResponder::on_roster(const LinkRoster& roster, bool remembers_all) noexcept {
  for (const auto& link : links_.used()) {
    if (!link->connection().is_open()) continue;
    if (link->requester() == roster.requester &&
        shared_.rosters.leaves_out(roster.requester, link->number())) {
      link->connection().fail(LinkLoss::given_up);
    }
    if (link->requester() == 0 && !remembers_all) link->connection().fail(LinkLoss::dropped);
  }
}

// Nor behind what the successor of its daemon asks for.
void TcpResponder::on_new_life(std::uint32_t daemon) noexcept {
  for (const auto& link : links_.used()) {
    TcpConnection& connection = link->connection();
    if (!connection.is_open() || connection.link().owner.daemon != daemon) continue;
    if (shared_.rosters.is_superseded(connection.link().owner)) {
      connection.fail(LinkLoss::superseded);
    }
  }
}

int TcpResponder::run_moves() noexcept {
  has_orders_ = false;
  return links_.run(shared_.clock.now_ns());
}

base::TimeNs TcpResponder::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = base::kNoDeadline;
  const bool is_short = links_.is_short();
  for (const auto& link : links_.used()) {
    const base::TimeNs roster_ns = link->roster_due_ns(is_short);
    if (roster_ns != base::kNoDeadline) {
      next_ns = std::min({next_ns, turn_ns_ + config_.peer_silence_ns / 3, roster_ns});
    }
    if (link->serving() == 0 || !link->connection().is_open()) continue;
    // Not longer: what is slept through is not counted as the requester's silence.
    next_ns = std::min({next_ns, turn_ns_ + config_.peer_silence_ns / 3,
                        link->connection().heard_ns + config_.peer_silence_ns});
  }
  return next_ns;
}

}  // namespace simm::transport
