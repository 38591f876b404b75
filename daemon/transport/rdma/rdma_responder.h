// RdmaResponder: the server's end of the RDMA transport: links that other daemons made to this
// shard. When they end, LinkResponder says.
// Thread: the server's data agent; made on the control thread.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/transport/link_responder.h"
#include "daemon/transport/rdma/rdma_link_set.h"
#include "daemon/transport/rdma/rdma_responder_link.h"
#include "daemon/transport/rdma/rdma_stripes.h"

namespace simm::transport {

class RdmaResponder final : public LinkResponder<RdmaLinkSet<RdmaResponderLink>> {
public:
  // All references outlive the responder. `ports` by rail, of this end alone.
  RdmaResponder(const RdmaResponderConfig& config, const base::Clock& clock,
                std::vector<RdmaPort*> ports, const MemoryKeys& keys, RequesterRosters& rosters,
                RdmaLinkMailbox& mailbox, const RdmaCounters& counters = {})
      : LinkResponder(shared_, links_, rosters),
        config_(config),
        stripes_(config_),
        shared_{{clock, rosters, config.peer_silence_ns, config.credits, config.weights, this,
                 &stripes_},
                config_,
                keys,
                counters},
        links_(config.links_max, shared_, std::move(ports), mailbox) {}
  // Fences every link; nobody is told. On the agent's thread, or when that has ended.
  ~RdmaResponder() override = default;

  void connect(ResponderEvents& events) noexcept override { stripes_.connect(events); }
  int do_work() noexcept override { return LinkResponder::do_work() + stripes_.do_work(); }
  int run_moves() noexcept override { return LinkResponder::run_moves() + stripes_.do_work(); }
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override {
    constexpr base::TimeNs kKeysPollNs = 1'000'000;  // nobody wakes us when memory is registered
    const bool waits_for_keys =
        std::ranges::any_of(links_.used(), [](const auto& link) { return link->waits_for_keys(); });
    return std::min({LinkResponder::next_deadline_ns(), links_.next_deadline_ns(),
                     waits_for_keys ? shared_.clock.now_ns() + kKeysPollNs : base::kNoDeadline});
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    return !has_orders() && !stripes_.has_work() && links_.prepare_sleep();
  }

private:
  const RdmaResponderConfig config_;
  RdmaStripes stripes_;
  RdmaResponderShared shared_;
  RdmaLinkSet<RdmaResponderLink> links_;  // after what it uses
};

}  // namespace simm::transport
