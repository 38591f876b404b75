// What both ends of the RDMA transport of one data agent count: payload by direction, what went
// inside messages, and messages. Thread: written by the data agent.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/counters.h"

namespace simm::transport {

struct RdmaCounters {
  RdmaCounters() = default;  // counts into unread cells
  // Names are "<prefix>.<counter>", for instance "rdma.0.read_bytes".
  RdmaCounters(base::CounterSet& set, std::string_view prefix)
      : read_bytes(set.counter(std::string(prefix) + ".read_bytes")),
        written_bytes(set.counter(std::string(prefix) + ".written_bytes")),
        inline_bytes(set.counter(std::string(prefix) + ".inline_bytes")),
        sent_parts(set.counter(std::string(prefix) + ".sent_parts")),
        received_parts(set.counter(std::string(prefix) + ".received_parts")),
        asked_again(set.counter(std::string(prefix) + ".asked_again")) {}

  base::Counter read_bytes;     // by this end's device, from regions of requesters
  base::Counter written_bytes;  // by this end's device, into regions of requesters
  base::Counter inline_bytes;   // copied by the CPU out of messages
  base::Counter sent_parts;
  base::Counter received_parts;
  base::Counter asked_again;  // parts of requests, over another rail because the first one failed
};

}  // namespace simm::transport
