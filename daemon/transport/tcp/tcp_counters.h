// What both ends of the TCP transport of one data agent count: what went over its sockets, headers
// and payloads, how many sends were to do without a copy, and how many of those the kernel copied.
// Thread: written by the data agent.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/counters.h"

namespace simm::transport {

struct TcpCounters {
  TcpCounters() = default;  // counts into unread cells
  // Names are "<prefix>.<counter>", for instance "tcp.0.received_bytes".
  TcpCounters(base::CounterSet& set, std::string_view prefix)
      : received_bytes(set.counter(std::string(prefix) + ".received_bytes")),
        sent_bytes(set.counter(std::string(prefix) + ".sent_bytes")),
        uncopied_sends(set.counter(std::string(prefix) + ".uncopied_sends")),
        copied_after_all(set.counter(std::string(prefix) + ".copied_after_all")) {}

  base::Counter received_bytes;
  base::Counter sent_bytes;
  base::Counter uncopied_sends;
  base::Counter copied_after_all;
};

}  // namespace simm::transport
