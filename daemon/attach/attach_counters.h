// What a daemon counts of its clients' connections. Thread: control.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::control {

struct AttachCounters : base::CounterGroup {
  explicit AttachCounters(base::CounterSet& set) : CounterGroup(set, "control") {}

  base::Counter open = counter(
      "connections.open", {"simm_connections_open", "Connections of clients, in every state."});
  base::Counter accepted =
      counter("connections.accepted",
              {"simm_connections_accepted_total", "Connections of clients that were accepted."});
  base::Counter closed = counter("connections.closed", {"simm_connections_closed_total",
                                                        "Connections of clients that are over."});
  base::Counter session_memory_bytes =
      counter("session_memory.bytes",
              {"simm_session_memory_bytes",
               "Session memory that the daemon made and that it or a client still has."});
  base::Counter refused =
      counter("attach.refused",
              {"simm_attach_refused_total", "Clients that were told why they can not attach."});

  // Connections that ended for that cause.
  [[nodiscard]] base::Counter ended(std::string_view cause) const {
    return counters("closed.", std::array{cause}, "cause",
                    {"simm_connection_ends_total", "Why connections of clients ended."})[0];
  }
};

}  // namespace simm::control
