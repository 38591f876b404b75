// What a daemon counts of its connections with other daemons: TCP links, queue pairs, hellos of
// others, and its own dialling. Thread: control.
#pragma once

#include <array>

#include "daemon/base/counter_group.h"
#include "daemon/peers/link_loss_text.h"

namespace simm::control {

struct LinkCounters : base::CounterGroup {
  explicit LinkCounters(base::CounterSet& set) : CounterGroup(set, "cluster.links") {}

  std::array<base::Counter, transport::kLinkLossCount> lost = counters(
      "lost_", kLinkLossNames, "cause",
      {"simm_cluster_links_lost_total", "Connections between data agents of daemons that ended."});
  base::Counter refused =
      counter("refused", {"simm_cluster_links_refused_total",
                          "Connections of other daemons that no data agent could take."});
  base::Counter refused_by_peer =
      counter("refused_by_peer", {"simm_cluster_links_refused_by_peer_total",
                                  "Connections to other daemons that had no place for them."});
  base::Counter made_room = counter(
      "made_room", {"simm_cluster_links_made_room_total",
                    "Connections of other daemons that were ended for a daemon that had fewer."});
  base::Counter returned = counter("returned", {"simm_cluster_links_returned_total",
                                                "Peers that could not be reached, and can again."});
};

struct QueuePairCounters : base::CounterGroup {
  explicit QueuePairCounters(base::CounterSet& set) : CounterGroup(set, "cluster.queue_pairs") {}

  std::array<base::Counter, transport::kLinkLossCount> lost =
      counters("lost_", kLinkLossNames, "cause",
               {"simm_cluster_queue_pairs_lost_total",
                "RDMA connections between data agents of daemons that ended."});
  base::Counter refused =
      counter("refused", {"simm_cluster_queue_pairs_refused_total",
                          "Offers of other daemons to connect by RDMA that were refused."});
  base::Counter made_room =
      counter("made_room", {"simm_cluster_queue_pairs_made_room_total",
                            "RDMA connections that were ended for a daemon that had fewer."});
};

struct ListenerCounters : base::CounterGroup {
  explicit ListenerCounters(base::CounterSet& set) : CounterGroup(set, "cluster.listener") {}

  base::Counter accepted = counter(
      "accepted", {"simm_cluster_hellos_total",
                   "Connections of other daemons by the end of their hello.", "result=accepted"});
  base::Counter refused = counter("refused", {"simm_cluster_hellos_total", "", "result=refused"});
  base::Counter evicted = counter("evicted", {"simm_cluster_hellos_total", "", "result=evicted"});
};

struct DialerCounters : base::CounterGroup {
  explicit DialerCounters(base::CounterSet& set) : CounterGroup(set, "cluster.dialer") {}

  base::Counter connected = counter(
      "connected",
      {"simm_cluster_dials_total", "Attempts to connect to other daemons.", "result=connected"});
  base::Counter failed = counter("failed", {"simm_cluster_dials_total", "", "result=failed"});
};

}  // namespace simm::control
