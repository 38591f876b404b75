// What both ends of the TCP transport of one data agent count: what went over its sockets, headers
// and payloads, how many sends were to do without a copy, and how many of those the kernel copied.
// Thread: written by the data agent.
#pragma once

#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::transport {

struct TcpCounters : base::CounterGroup {
  TcpCounters() = default;  // counts into unread cells
  // `prefix`: "tcp.0" of the data agent 0.
  TcpCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter received_bytes = counter(
      "received_bytes",
      {"simm_tcp_received_bytes_total", "Bytes received from other daemons, headers included."});
  base::Counter sent_bytes =
      counter("sent_bytes",
              {"simm_tcp_sent_bytes_total", "Bytes sent to other daemons, headers included."});
  base::Counter uncopied_sends =
      counter("uncopied_sends",
              {"simm_tcp_uncopied_sends_total", "Sends that asked the kernel not to copy."});
  base::Counter copied_after_all = counter(
      "copied_after_all",
      {"simm_tcp_copied_after_all_total", "Of those, sends that the kernel copied nevertheless."});
};

}  // namespace simm::transport
