// ClusterAccess: what every connection of the cluster is made with. Made by the composition root;
// outlives them all. Thread: control.
#pragma once

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/error_log.h"
#include "daemon/base/event_log.h"
#include "daemon/base/limits.h"
#include "daemon/base/random.h"
#include "daemon/cluster/backoff.h"
#include "daemon/cluster/hello/hello.h"
#include "daemon/control/asio.h"

namespace simm::control {

// From the first byte of a connection to its end: connect (dialer) and hello together.
inline constexpr base::TimeNs kHelloTimeNs = cluster::Backoff::kAttemptNs;
// From the verdict on, for the proof of the path. A kernel that looks for the path's longest packet
// itself (net.ipv4.tcp_mtu_probing=1) needs 3 s to begin.
inline constexpr base::TimeNs kPathTimeNs = 5 * base::kNsPerSecond;

struct ClusterAccess {
  boost::asio::io_context& io;
  const base::Clock& clock;
  base::Random& random;  // nonces and jitter
  base::CounterSet& counters;
  base::LimitCounters& limits;
  base::ErrorLog& errors;
  const cluster::ClusterSecret& secret;
  const cluster::HelloSelf& self;
  base::EventLog& events;
};

}  // namespace simm::control
