#include "daemon/transport/tcp/tcp_requester.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

TcpRequester::TcpRequester(const TcpRequesterConfig& config, const base::Clock& clock, SocketIo& io,
                           Mover& mover, TcpLinkMailbox& mailbox)
    : config_(config),
      shared_{config_, clock, io, mover},
      mailbox_(mailbox),
      lost_(config.links_max, mailbox) {
  links_.reserve(config.links_max);
  for (std::uint32_t i = 0; i < config.links_max; ++i) {
    links_.push_back(std::make_unique<RequesterLink>(shared_));
  }
}

TcpRequester::~TcpRequester() {
  bool are_quiet = false;
  for (int i = 0; i < kStopTurns && !are_quiet; ++i) {
    are_quiet = true;
    for (const auto& link : links_) are_quiet = link->stop() && are_quiet;
    if (!are_quiet) shared_.io.poll();
  }
  // With io_uring, when the agent's thread has ended: no cancel can be asked for any more, and none
  // is needed, because the kernel ended everything with the thread.
  while (ready_.pop_front() != nullptr) {
  }
}

void TcpRequester::connect(RequesterEvents& events, RegionFaults* faults) noexcept {
  shared_.events = &events;
  shared_.faults = faults;
}

void TcpRequester::add_link(TcpLink link) noexcept {
  const LinkLost refused{link.link, link.peer, link.shard, LinkLoss::refused};
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    RequesterLink& candidate = *links_[i];
    if (!candidate.connection().is_free()) continue;
    if (!candidate.open(std::move(link), ready_, shared_.clock.now_ns())) break;
    links_used_ = std::max(links_used_, i + 1);
    return;
  }
  lost_.add(refused);
}

// ---- requests ----

RequesterLink* TcpRequester::least_loaded(Route route, bool& is_reachable) noexcept {
  RequesterLink* best = nullptr;
  is_reachable = false;
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    RequesterLink& link = *links_[i];
    const TcpConnection& connection = link.connection();
    if (!connection.is_open()) continue;
    if (connection.link().peer != route.peer || connection.link().shard != route.shard) continue;
    is_reachable = true;
    if (!link.has_credit()) continue;
    if (best == nullptr || link.in_flight() < best->in_flight()) best = &link;
  }
  return best;
}

Status TcpRequester::post(Route route, RequestToken token, const Request& request) noexcept {
  SIMM_CHECK(!request.pages.empty() && request.pages.size() <= ipc::kPagesPerSubmissionMax);
  bool is_reachable = false;
  RequesterLink* const link = least_loaded(route, is_reachable);
  if (link == nullptr) return is_reachable ? Status::no_space : Status::unreachable;
  link->post(token, request);
  has_posted_ = true;
  return Status::ok;
}

void TcpRequester::cancel(Route, RequestToken token) noexcept {
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    if (links_[i]->cancel(token)) break;
  }
  has_posted_ = true;
}

void TcpRequester::reset(Route, RequestToken culprit) noexcept {
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    if (links_[i]->reset(culprit)) break;
  }
  has_posted_ = true;
}

// ---- turns ----

int TcpRequester::do_work() noexcept {
  has_posted_ = false;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  int work = shared_.mover.do_work();
  if (lost_.has_room()) work += take_mail();
  for (int round = 0; round < kRoundsPerTurn; ++round) {
    const int did = run_links(now_ns);
    work += did;
    if (did == 0) break;
  }
  check_lives(now_ns);
  work += finish_closing();
  lost_.report(mailbox_);
  return work;
}

// Starts what can be started, gives it to the kernel, and takes what has ended.
int TcpRequester::run_links(base::TimeNs now_ns) noexcept {
  int work = 0;
  for (std::uint32_t i = 0; i < links_used_; ++i) work += links_[i]->run(now_ns);
  // Counted, because it may be for another one who shares the io and had its turn already.
  work += shared_.io.poll();
  IoReadyList ended;
  ended.splice_back(ready_);
  while (IoSocket* socket = ended.pop_front()) {
    // SAFETY: the owner was set by open() and lives as long as this requester.
    work += static_cast<RequesterLink*>(socket->owner)->serve(now_ns);
  }
  return work;
}

void TcpRequester::drop_peer(base::PeerId peer, LinkLoss cause) noexcept {
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    TcpConnection& connection = links_[i]->connection();
    if (connection.is_open() && connection.link().peer == peer) connection.fail(cause);
  }
}

void TcpRequester::check_lives(base::TimeNs now_ns) noexcept {
  // While we were stopped ourselves, or had no CPU, the silence was ours: that time is not counted.
  // An agent that sleeps until next_deadline_ns() is not away.
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_detection_ns);
  turn_ns_ = now_ns;
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    RequesterLink& link = *links_[i];
    link.connection().forgive(away_ns, now_ns);
    if (link.check_life(now_ns)) drop_peer(link.connection().link().peer, LinkLoss::silent);
  }
}

int TcpRequester::finish_closing() noexcept {
  int work = 0;
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    RequesterLink& link = *links_[i];
    if (!link.connection().is_closing() || !lost_.can_add() || !link.finish_closing()) continue;
    lost_.add(link.connection().lost());
    link.connection().close();
    ++work;
  }
  while (links_used_ > 0 && links_[links_used_ - 1]->connection().is_free()) --links_used_;
  return work;
}

int TcpRequester::take_mail() noexcept {
  return mailbox_.agent_take([this](TcpLink link) { add_link(std::move(link)); },
                             [this](base::PeerId peer) { drop_peer(peer, LinkLoss::dropped); });
}

base::TimeNs TcpRequester::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = base::kNoDeadline;
  for (std::uint32_t i = 0; i < links_used_; ++i) {
    next_ns = std::min(next_ns, links_[i]->next_deadline_ns());
  }
  return next_ns;
}

}  // namespace simm::transport
