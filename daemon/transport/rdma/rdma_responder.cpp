#include "daemon/transport/rdma/rdma_responder.h"

#include <algorithm>
#include <utility>

#include "daemon/base/agent.h"

namespace simm::transport {

namespace {

RdmaIncoming& rdma_incoming(Incoming& incoming) noexcept {
  // SAFETY: every Incoming that this responder hands out is a RdmaIncoming.
  return static_cast<RdmaIncoming&>(incoming);
}

}  // namespace

RdmaResponder::RdmaResponder(const RdmaResponderConfig& config, const base::Clock& clock,
                             std::vector<RdmaPort*> ports, const MemoryKeys& keys,
                             RequesterRosters& rosters, RdmaLinkMailbox& mailbox,
                             const RdmaCounters& counters)
    : config_(config),
      shared_{config_, clock, keys, rosters, counters, this, &stripes_},
      links_(config.links_max, shared_, std::move(ports), mailbox) {
  rosters.add_listener(*this);
}

// ---- the server's calls ----

void RdmaResponder::pull(Incoming& incoming, std::uint16_t page,
                         std::span<std::byte> extent) noexcept {
  RdmaIncoming& rdma = rdma_incoming(incoming);
  has_orders_ = true;
  rdma.link->pull(rdma, page, extent);
}

void RdmaResponder::push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
                         bool whole_digest) noexcept {
  RdmaIncoming& rdma = rdma_incoming(incoming);
  has_orders_ = true;
  rdma.link->push(rdma, page, bytes, whole_digest);
}

void RdmaResponder::reply(Incoming& incoming, std::span<const PageReply> pages) noexcept {
  RdmaIncoming& rdma = rdma_incoming(incoming);
  has_orders_ = true;
  rdma.link->reply(rdma, pages);
}

// ---- turns ----

int RdmaResponder::do_work() noexcept {
  int work = links_.take_mail([this](const RdmaLink& link) { shared_.rosters.meet(link.owner); });
  const base::TimeNs now_ns = shared_.clock.now_ns();
  work += run_moves();
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_silence_ns);
  turn_ns_ = now_ns;
  const bool is_short = links_.is_short();
  for (const auto& link : links_.used()) {
    // A requester that waits for nothing may be silent, once it has said who it is.
    link->forgive(away_ns, now_ns);
    const bool is_mute = now_ns >= link->roster_due_ns(is_short);
    if (is_mute || link->is_overdue(now_ns)) link->channel().fail(LinkLoss::silent);
    if (link->is_stalled(now_ns)) link->channel().fail(LinkLoss::stalled);
  }
  work += links_.finish_closing();
  return work + stripes_.do_work();
}

int RdmaResponder::run_moves() noexcept {
  has_orders_ = false;
  const int work = links_.run(shared_.clock.now_ns());
  return work + stripes_.do_work();
}

// What a link that was given up still carries must not be done behind what is asked for now.
void RdmaResponder::on_roster(const LinkRoster& roster, bool remembers_all) noexcept {
  for (const auto& link : links_.used()) {
    if (!link->channel().is_open()) continue;
    if (link->requester() == roster.requester &&
        shared_.rosters.leaves_out(roster.requester, link->number())) {
      link->channel().fail(LinkLoss::given_up);
    }
    if (link->requester() == 0 && !remembers_all) link->channel().fail(LinkLoss::dropped);
  }
}

// Nor behind what the successor of its daemon asks for.
void RdmaResponder::on_new_life(std::uint32_t daemon) noexcept {
  for (const auto& link : links_.used()) {
    RdmaChannel& channel = link->channel();
    if (!channel.is_open() || channel.link().owner.daemon != daemon) continue;
    if (shared_.rosters.is_superseded(channel.link().owner)) channel.fail(LinkLoss::superseded);
  }
}

base::TimeNs RdmaResponder::next_deadline_ns() const noexcept {
  constexpr base::TimeNs kKeysPollNs = 1'000'000;  // nobody wakes us when memory is registered
  base::TimeNs next_ns = links_.next_deadline_ns();
  const bool is_short = links_.is_short();
  for (const auto& link : links_.used()) {
    const base::TimeNs roster_ns = link->roster_due_ns(is_short);
    if (roster_ns != base::kNoDeadline) {
      next_ns = std::min({next_ns, turn_ns_ + config_.peer_silence_ns / 3, roster_ns});
    }
    if (link->waits_for_keys()) {
      next_ns = std::min(next_ns, shared_.clock.now_ns() + kKeysPollNs);
    }
    if (link->serving() == 0 || !link->channel().is_open()) continue;
    next_ns = std::min({next_ns, turn_ns_ + config_.peer_silence_ns / 3,
                        link->channel().heard_ns + config_.peer_silence_ns});
  }
  return next_ns;
}

}  // namespace simm::transport
