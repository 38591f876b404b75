// RequesterLinkShared: what all links of one TcpRequester share. Owned by it.
// Thread: the engine's data agent.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/transport/mover.h"
#include "daemon/transport/own_roster.h"
#include "daemon/transport/region_faults.h"
#include "daemon/transport/request_wire.h"
#include "daemon/transport/tcp/socket_io.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/tcp_counters.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

struct RequesterLinkShared {
  const TcpRequesterConfig& config;
  const base::Clock& clock;
  SocketIo& io;
  TcpCounters counters;
  Mover& mover;
  OwnRoster& links;
  RequesterEvents* events = nullptr;
  RegionFaults* faults = nullptr;

  // Until that deadline, as a request frame says it; 0: it is over.
  [[nodiscard]] std::uint64_t remaining_ns(base::TimeNs deadline_ns) const noexcept {
    if (deadline_ns == 0) return wire::kNoDeadline;
    const base::TimeNs now_ns = clock.fresh_ns();
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  }
};

}  // namespace simm::transport
