// What both ends of the RDMA transport of one data agent count: payload by direction, what went
// inside messages, and messages. Thread: written by the data agent.
#pragma once

#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::transport {

struct RdmaCounters : base::CounterGroup {
  RdmaCounters() = default;  // counts into unread cells
  // `prefix`: "rdma.0" of the data agent 0.
  RdmaCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter read_bytes =
      counter("read_bytes",
              {"simm_rdma_read_bytes_total",
               "Payload that this daemon's NICs read out of memory of other daemons' clients."});
  base::Counter written_bytes =
      counter("written_bytes",
              {"simm_rdma_written_bytes_total",
               "Payload that this daemon's NICs wrote into memory of other daemons' clients."});
  base::Counter inline_bytes =
      counter("inline_bytes", {"simm_rdma_inline_bytes_total",
                               "Payload inside messages over RDMA: of requests at both ends, of "
                               "replies where they arrive."});
  base::Counter sent_parts = counter(
      "sent_parts",
      {"simm_rdma_sent_parts_total", "Parts of messages, of at most 8 KiB, sent over RDMA."});
  base::Counter received_parts =
      counter("received_parts",
              {"simm_rdma_received_parts_total", "Parts of messages received over RDMA."});
  base::Counter asked_again =
      counter("asked_again", {"simm_rdma_asked_again_total",
                              "Parts of requests that were asked for over another RDMA port "
                              "because the first one failed."});
};

}  // namespace simm::transport
