#include "daemon/transport/tcp/tcp_requester.h"

#include <algorithm>

#include "daemon/base/random.h"
#include "simm/check.h"

namespace simm::transport {

namespace {

// Of the links on one route. `seed` is random, so nobody else has the same name.
std::uint64_t asker_on(const TcpLink& route, std::uint64_t seed) noexcept {
  const std::uint64_t asker = seed ^ (std::uint64_t{route.peer.value} << 16 | route.shard);
  return asker != 0 ? asker : 1;
}

bool is_on_one_route(const TcpLink& one, const TcpLink& other) noexcept {
  return one.peer == other.peer && one.shard == other.shard;
}

}  // namespace

TcpRequester::TcpRequester(const TcpRequesterConfig& config, const base::Clock& clock, SocketIo& io,
                           Mover& mover, TcpLinkMailbox& mailbox, const TcpCounters& counters)
    : config_(config),
      asker_seed_(base::SystemRandom().next()),
      shared_{config_, clock, io, counters, mover, *this},
      links_(config.links_max, shared_, mailbox) {}

void TcpRequester::connect(RequesterEvents& events, RegionFaults* faults) noexcept {
  shared_.events = &events;
  shared_.faults = faults;
}

// ---- requests ----

RequesterLink* TcpRequester::least_loaded(Route route, bool& is_reachable) noexcept {
  RequesterLink* best = nullptr;
  is_reachable = false;
  for (const auto& link : links_.used()) {
    const TcpConnection& connection = link->connection();
    if (!connection.is_open()) continue;
    if (connection.link().peer != route.peer || connection.link().shard != route.shard) continue;
    is_reachable = true;
    if (!link->has_credit()) continue;
    if (best == nullptr || link->in_flight() < best->in_flight()) best = link.get();
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
  for (const auto& link : links_.used()) {
    if (link->cancel(token)) break;
  }
  has_posted_ = true;
}

void TcpRequester::reset(Route, RequestToken culprit) noexcept {
  for (const auto& link : links_.used()) {
    if (link->reset(culprit)) break;
  }
  has_posted_ = true;
}

// ---- links ----

std::uint64_t TcpRequester::number_for(const TcpLink& link) noexcept {
  const auto siblings =
      std::count_if(links_.used().begin(), links_.used().end(), [&link](const auto& one) {
        const TcpConnection& connection = one->connection();
        return connection.is_open() && is_on_one_route(connection.link(), link);
      });
  return siblings < wire::kRosterLinksMax ? ++last_number_ : 0;
}

LinkRoster TcpRequester::roster_for(const TcpLink& link, std::uint64_t number) noexcept {
  LinkRoster roster;
  roster.asker = asker_on(link, asker_seed_);
  roster.statement = ++last_number_;
  roster.link = number;
  for (const auto& one : links_.used()) {
    const TcpConnection& connection = one->connection();
    if (!connection.is_open() || !is_on_one_route(connection.link(), link)) continue;
    SIMM_CHECK(roster.count < roster.links.size());
    roster.links[roster.count++] = one->number();
  }
  return roster;
}

// Its requests have failed. What their askers ask for from now on must not be overtaken by them.
void TcpRequester::on_over(const RequesterLink& over) noexcept {
  for (const auto& one : links_.used()) {
    if (is_on_one_route(one->connection().link(), over.connection().link())) one->owe_roster();
  }
}

// ---- turns ----

int TcpRequester::do_work() noexcept {
  has_posted_ = false;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  int work = shared_.mover.do_work();
  work += links_.take_mail();
  work += links_.run(now_ns);
  check_lives(now_ns);
  return work + links_.finish_closing([this](const RequesterLink& over) { on_over(over); });
}

void TcpRequester::check_lives(base::TimeNs now_ns) noexcept {
  // While we were stopped ourselves, or had no CPU, the silence was ours: that time is not counted.
  // An agent that sleeps until next_deadline_ns() is not away.
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_detection_ns);
  turn_ns_ = now_ns;
  for (const auto& link : links_.used()) {
    link->connection().forgive(away_ns, now_ns);
    if (link->check_life(now_ns))
      links_.drop_peer(link->connection().link().peer, LinkLoss::silent);
  }
}

base::TimeNs TcpRequester::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = base::kNoDeadline;
  for (const auto& link : links_.used()) next_ns = std::min(next_ns, link->next_deadline_ns());
  return next_ns;
}

}  // namespace simm::transport
