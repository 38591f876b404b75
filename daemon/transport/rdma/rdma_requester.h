// RdmaRequester: the engine's end of the RDMA transport: links to the shards of other daemons, over
// any of this daemon's ports (rails). A route may have several; a request lives on the one with the
// fewest bytes out at that moment, and a link is what reset() breaks.
//
// A peer that is silent for peer_detection_ns while requests are out is dead on that link: the
// link ends, and the others say for themselves.
// Thread: the engine's data agent; made on the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/transport/rdma/rdma_link_set.h"
#include "daemon/transport/rdma/rdma_requester_link.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class RdmaRequester final : public Requester {
public:
  // All references outlive the requester. `ports` by rail, of this end alone.
  RdmaRequester(const RdmaRequesterConfig& config, const base::Clock& clock,
                std::vector<RdmaPort*> ports, const MemoryKeys& keys, Mover& mover,
                AskerLinks& links, RdmaLinkMailbox& mailbox, const RdmaCounters& counters = {});
  // Fences every link; nobody is told. On the agent's thread, or when that has ended.
  ~RdmaRequester() override = default;
  RdmaRequester(const RdmaRequester&) = delete;
  RdmaRequester& operator=(const RdmaRequester&) = delete;

  // Who is told; before the first post. `faults` may be null.
  void connect(RequesterEvents& events, RegionFaults* faults) noexcept;

  // unsupported: memory of the request is not registered with the device of that link (yet), and
  // nothing happened; another transport may carry it.
  Status post(Route route, RequestToken token, const Request& request) noexcept override;
  void cancel(Route route, RequestToken token) noexcept override;
  void reset(Route route, RequestToken culprit) noexcept override;
  int do_work() noexcept override;

  // When do_work() has to run even if nothing arrives.
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;
  // True: nothing to do before a port's descriptor, or that time, says so.
  [[nodiscard]] bool prepare_sleep() noexcept { return !has_posted_ && links_.prepare_sleep(); }

private:
  const RdmaRequesterConfig config_;
  RdmaRequesterShared shared_;
  RdmaLinkSet<RdmaRequesterLink> links_;  // after what it uses
  base::TimeNs turn_ns_ = 0;              // when the last turn began
  bool has_posted_ = false;               // since the last turn
};

}  // namespace simm::transport
