// What is counted of one rail: its port, its registrations, and queue pairs that did not end.
// Thread: made at set-up; the registrar's threads write registrations, the reaper's what did not
// end, the thread of its RailDevice the others.
#pragma once

#include <cstddef>

#include "daemon/base/counter_group.h"

namespace simm::transport {

struct RailCounters : base::CounterGroup {
  RailCounters() = default;  // counts into unread cells
  RailCounters(base::CounterSet& set, std::size_t rail)
      : CounterGroup(set, base::numbered("rdma.rail", rail), "rail") {}

  base::Counter registered_bytes =
      counter("registered_bytes",
              {"simm_rdma_registered_bytes", "Memory that is registered with an RDMA port."});
  base::Counter wanted_bytes = counter(
      "wanted_bytes",
      {"simm_rdma_wanted_bytes", "Memory that is to be registered with it, or is already."});
  base::Counter failed_bytes = counter(
      "failed_bytes", {"simm_rdma_failed_bytes",
                       "Memory of which the registration was refused, until it is tried again."});
  base::Counter registrations =
      counter("registrations",
              {"simm_rdma_registrations", "Registrations with it, of at most 1 GiB each."});
  base::Counter registration_failures = counter(
      "registration_failures", {"simm_rdma_registration_failures_total",
                                "Registrations that were refused; simmctl errors says why."});
  base::Counter is_open =
      counter("is_open", {"simm_rdma_port_open", "1 while the RDMA port can be used, else 0."});
  base::Counter lost = counter(
      "lost",
      {"simm_rdma_port_lost_total", "Times that the device of the port was reset, or taken out."});
  base::Counter ends_refused = counter(
      "ends_refused", {"simm_rdma_ends_refused_total",
                       "Times that the port did not destroy a queue pair; each is tried again."});
  base::Counter ends_given_up = counter(
      "ends_given_up", {"simm_rdma_ends_given_up_total",
                        "Queue pairs that a stopping daemon left to the end of its process."});
};

}  // namespace simm::transport
