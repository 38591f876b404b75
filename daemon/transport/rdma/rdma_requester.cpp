#include "daemon/transport/rdma/rdma_requester.h"

#include <algorithm>
#include <utility>

#include "daemon/base/agent.h"
#include "simm/check.h"

namespace simm::transport {

RdmaRequester::RdmaRequester(const RdmaRequesterConfig& config, const base::Clock& clock,
                             std::vector<RdmaPort*> ports, const MemoryKeys& keys, Mover& mover,
                             AskerLinks& links, RdmaLinkMailbox& mailbox,
                             const RdmaCounters& counters)
    : config_(config),
      shared_{config_, clock, keys, mover, links, counters},
      links_(config.links_max, shared_, std::move(ports), mailbox) {}

void RdmaRequester::connect(RequesterEvents& events, RegionFaults* faults) noexcept {
  shared_.events = &events;
  shared_.faults = faults;
}

Status RdmaRequester::post(Route route, RequestToken token, const Request& request) noexcept {
  SIMM_CHECK(!request.pages.empty() && request.pages.size() <= ipc::kPagesPerSubmissionMax);
  RdmaRequesterLink* best = nullptr;
  bool is_reachable = false;
  for (const auto& link : links_.used()) {
    if (!link->channel().is_open()) continue;
    const RdmaLink& to = link->channel().link();
    if (Route{to.peer, to.shard} != route) continue;
    is_reachable = true;
    if (!link->has_credit()) continue;
    if (best == nullptr || link->bytes_out() < best->bytes_out() ||
        (link->bytes_out() == best->bytes_out() && link->in_flight() < best->in_flight())) {
      best = link.get();
    }
  }
  if (!is_reachable) return Status::unreachable;
  if (best == nullptr) return Status::no_space;
  if (!best->post(token, request)) return Status::unsupported;
  has_posted_ = true;
  return Status::ok;
}

void RdmaRequester::cancel(Route, RequestToken token) noexcept {
  for (const auto& link : links_.used()) {
    if (link->cancel(token)) break;
  }
  has_posted_ = true;
}

void RdmaRequester::reset(Route, RequestToken culprit) noexcept {
  for (const auto& link : links_.used()) {
    if (link->reset(culprit)) break;
  }
  has_posted_ = true;
}

int RdmaRequester::do_work() noexcept {
  has_posted_ = false;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  int work = links_.take_mail();
  work += links_.run(now_ns);
  // While we were stopped ourselves, or had no CPU, the silence was ours: that time is not counted.
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_detection_ns);
  turn_ns_ = now_ns;
  for (const auto& link : links_.used()) {
    link->channel().forgive(away_ns, now_ns);
    if (link->check_life(now_ns)) link->channel().fail(LinkLoss::silent);
  }
  return work + links_.finish_closing();
}

base::TimeNs RdmaRequester::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = base::kNoDeadline;
  for (const auto& link : links_.used()) next_ns = std::min(next_ns, link->next_deadline_ns());
  return next_ns;
}

}  // namespace simm::transport
