// What a shared-read shard counts. Thread: written by its data agent.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/counters.h"

namespace simm::shared_reads {

struct SharedReadCounters {
  SharedReadCounters() = default;  // counts into unread cells
  // Names are "<prefix>.<counter>", for instance "shared_reads.0.pages".
  SharedReadCounters(base::CounterSet& set, std::string_view prefix) {
    const std::string name(prefix);
    pages = set.counter(name + ".pages");
    fetched_pages = set.counter(name + ".fetched_pages");
    fetched_bytes = set.counter(name + ".fetched_bytes");
    copied_bytes = set.counter(name + ".copied_bytes");
    joined = set.counter(name + ".joined");
    hits = set.counter(name + ".hits");
    outdated = set.counter(name + ".outdated");
    failed = set.counter(name + ".failed");
    declined = set.counter(name + ".declined");
    evicted = set.counter(name + ".evicted");
  }

  base::Counter pages;          // asked for
  base::Counter fetched_pages;  // from their owners
  base::Counter fetched_bytes;
  base::Counter copied_bytes;  // to requesters
  base::Counter joined;        // pages that waited for a fetch of another one
  base::Counter hits;          // pages that were here
  base::Counter outdated;      // pages that were here, but too old or written since
  base::Counter failed;        // fetches of a page without an object
  base::Counter declined;      // pages without room: their requester asks the owner itself
  base::Counter evicted;       // copies that made room
};

}  // namespace simm::shared_reads
