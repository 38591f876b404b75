// What a shared-read shard counts. Thread: written by its data agent.
#pragma once

#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::shared_reads {

struct SharedReadCounters : base::CounterGroup {
  SharedReadCounters() = default;  // counts into unread cells
  // `prefix`: "shared_reads.0" of the data agent 0.
  SharedReadCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter pages =
      counter("pages", {"simm_node_cache_pages_total", "Pages that the node cache was asked for."});
  base::Counter hits =
      counter("hits", {"simm_node_cache_hits_total", "Of those, pages that were there."});
  base::Counter joined =
      counter("joined", {"simm_node_cache_joined_total",
                         "Of those, pages that another reader was fetching already."});
  base::Counter fetched_pages = counter(
      "fetched_pages", {"simm_node_cache_fetched_pages_total", "Pages fetched from their owners."});
  base::Counter fetched_bytes =
      counter("fetched_bytes", {"simm_node_cache_fetched_bytes_total", "Bytes of those."});
  base::Counter copied_bytes =
      counter("copied_bytes", {"simm_node_cache_copied_bytes_total", "Bytes copied to readers."});
  base::Counter outdated = counter(
      "outdated",
      {"simm_node_cache_outdated_total", "Pages that were there, but too old or written since."});
  base::Counter confirmed =
      counter("confirmed", {"simm_node_cache_confirmed_total",
                            "Copies of immutable namespaces that their owners had still."});
  base::Counter refuted = counter(
      "refuted", {"simm_node_cache_refuted_total", "Of such copies, those that they had not."});
  base::Counter failed = counter("failed", {"simm_node_cache_failed_fetches_total",
                                            "Fetches of a page that ended without an object."});
  base::Counter declined =
      counter("declined", {"simm_node_cache_declined_total",
                           "Pages without room, whose readers asked the owner themselves."});
  base::Counter evicted =
      counter("evicted", {"simm_node_cache_evicted_total", "Copies that made room."});
};

}  // namespace simm::shared_reads
