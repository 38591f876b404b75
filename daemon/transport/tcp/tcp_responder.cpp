#include "daemon/transport/tcp/tcp_responder.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

namespace {

TcpIncoming& tcp_incoming(Incoming& incoming) noexcept {
  // SAFETY: every Incoming that this responder hands out is a TcpIncoming.
  return static_cast<TcpIncoming&>(incoming);
}

}  // namespace

TcpResponder::TcpResponder(const TcpResponderConfig& config, const base::Clock& clock, SocketIo& io,
                           TcpLinkMailbox& mailbox)
    : config_(config),
      shared_{config_, clock, io, this},
      mailbox_(mailbox),
      lost_(config.links_max, mailbox) {
  links_.reserve(config.links_max);
  for (std::uint32_t i = 0; i < config.links_max; ++i) {
    links_.push_back(std::make_unique<ResponderLink>(shared_));
  }
}

TcpResponder::~TcpResponder() {
  bool are_quiet = false;
  for (int i = 0; i < kStopTurns && !are_quiet; ++i) {
    are_quiet = true;
    for (const auto& link : links_) are_quiet = link->connection().stop() && are_quiet;
    if (!are_quiet) shared_.io.poll();
  }
  // With io_uring, when the agent's thread has ended: no cancel can be asked for any more, and none
  // is needed, because the kernel ended everything with the thread.
  while (ready_.pop_front() != nullptr) {
  }
}

void TcpResponder::add_link(TcpLink link) noexcept {
  const LinkLost refused{link.link, link.peer, link.shard, LinkLoss::refused};
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    ResponderLink& candidate = *links_[i];
    if (!candidate.connection().is_free()) continue;
    if (!candidate.open(std::move(link), ready_, shared_.clock.now_ns())) break;
    links_used_ = std::max(links_used_, i + 1);
    return;
  }
  lost_.add(refused);
}

// ---- the server's calls ----

void TcpResponder::pull(Incoming& incoming, std::uint16_t page,
                        std::span<std::byte> extent) noexcept {
  TcpIncoming& tcp = tcp_incoming(incoming);
  has_orders_ = true;
  tcp.link->pull(tcp, page, extent);
}

// The digest is taken in any case: the asker compares it.
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
  int work = lost_.has_room() ? take_mail() : 0;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  work += run_moves();
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_silence_ns);
  turn_ns_ = now_ns;
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    ResponderLink& link = *links_[i];
    // An asker that waits for nothing may be silent.
    link.connection().forgive(link.serving() == 0 ? now_ns : away_ns, now_ns);
    if (link.is_overdue(now_ns)) link.connection().fail(LinkLoss::silent);
  }
  work += finish_closing();
  lost_.report(mailbox_);
  return work;
}

int TcpResponder::run_moves() noexcept {
  has_orders_ = false;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  int work = 0;
  for (int round = 0; round < kRoundsPerTurn; ++round) {
    const int did = run_links(now_ns);
    work += did;
    if (did == 0) break;
  }
  return work;
}

// Starts what can be started, gives it to the kernel, and takes what has ended.
int TcpResponder::run_links(base::TimeNs now_ns) noexcept {
  int work = 0;
  for (std::uint32_t i = 0; i < links_used_; ++i) work += links_[i]->run();
  work += shared_.io.poll();  // also what is for another one who shares the io
  IoReadyList ended;
  ended.splice_back(ready_);
  while (IoSocket* socket = ended.pop_front()) {
    // SAFETY: the owner was set by open() and lives as long as this responder.
    work += static_cast<ResponderLink*>(socket->owner)->serve(now_ns);
  }
  return work;
}

int TcpResponder::take_mail() noexcept {
  return mailbox_.agent_take([this](TcpLink link) { add_link(std::move(link)); },
                             [this](base::PeerId peer) { drop_peer(peer); });
}

void TcpResponder::drop_peer(base::PeerId peer) noexcept {
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    TcpConnection& connection = links_[i]->connection();
    if (connection.is_open() && connection.link().peer == peer) {
      connection.fail(LinkLoss::dropped);
    }
  }
}

int TcpResponder::finish_closing() noexcept {
  int work = 0;
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    ResponderLink& link = *links_[i];
    if (!link.connection().is_closing() || !lost_.can_add() || !link.finish_closing()) continue;
    lost_.add(link.connection().lost());
    link.connection().close();
    ++work;
  }
  while (links_used_ > 0 && links_[links_used_ - 1]->connection().is_free()) --links_used_;
  return work;
}

base::TimeNs TcpResponder::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = base::kNoDeadline;
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    ResponderLink& link = *links_[i];
    if (link.serving() == 0 || !link.connection().is_open()) continue;
    // Not longer: what is slept through is not counted as the asker's silence.
    next_ns = std::min({next_ns, turn_ns_ + config_.peer_silence_ns / 3,
                        link.connection().heard_ns + config_.peer_silence_ns});
  }
  return next_ns;
}

}  // namespace simm::transport
