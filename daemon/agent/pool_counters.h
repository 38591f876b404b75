// What a daemon tells of the memory of its pool. Thread: control; the prefaulter's for its bytes.
#pragma once

#include "daemon/base/counter_group.h"

namespace simm {

struct PoolCounters : base::CounterGroup {
  explicit PoolCounters(base::CounterSet& set) : CounterGroup(set, "pool") {}

  base::Counter bytes = counter("bytes", {"simm_pool_bytes", "Memory of this daemon for objects."});
  base::Counter prefaulted_bytes = counter(
      "prefaulted_bytes",
      {"simm_pool_prefaulted_bytes", "What of it was made present at start (node.prefault)."});
  base::Counter recovery_ns = counter(
      "recovery_ns",
      {"simm_pool_recovery_seconds",
       "How long the start took to bring back what an earlier daemon left; 0: nothing was left."});
};

}  // namespace simm
