#include "daemon/transport/rdma/rdma_requester.h"

#include <algorithm>
#include <utility>

#include "daemon/base/agent.h"
#include "simm/check.h"

namespace simm::transport {

RdmaRequester::RdmaRequester(const RdmaRequesterConfig& config, const base::Clock& clock,
                             std::vector<RdmaPort*> ports, const MemoryKeys& keys, Mover& mover,
                             OwnRoster& links, RdmaLinkMailbox& mailbox,
                             const RdmaCounters& counters)
    : config_(config),
      shared_{config_, clock, keys, mover, links, counters},
      batches_(std::size_t{config.links_max} * config.credits),
      free_(config.links_max * config.credits),
      waiting_(config.links_max * config.credits),
      links_(config.links_max, shared_, std::move(ports), mailbox) {
  shared_.events = this;
}

void RdmaRequester::connect(RequesterEvents& events, RegionFaults* faults) noexcept {
  events_ = &events;
  shared_.faults = faults;
}

int RdmaRequester::do_work() noexcept {
  has_posted_ = false;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  int work = links_.take_mail([](const RdmaLink&) {});
  work += post_waiting();
  work += links_.run(now_ns);
  // While we were stopped ourselves, or had no CPU, the silence was ours: that time is not counted.
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_detection_ns);
  turn_ns_ = now_ns;
  for (const auto& link : links_.used()) {
    link->path().forgive(away_ns, now_ns);
    if (link->check_life(now_ns)) link->path().fail(LinkLoss::silent);
  }
  return work + links_.finish_closing();
}

base::TimeNs RdmaRequester::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = links_.next_deadline_ns();
  for (const auto& link : links_.used()) next_ns = std::min(next_ns, link->next_deadline_ns());
  return next_ns;
}

}  // namespace simm::transport
