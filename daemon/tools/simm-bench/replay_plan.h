// What a replay will do, worked out before it starts: the model, the factor by which its pages are
// made smaller so that the machine holds them, and what a cache that forgets nothing would hit.
// Thread: any; immutable once made.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/trace.h"
#include "daemon/tools/simm-bench/workload_model.h"

namespace simm::bench {

struct ReplayPlan {
  WorkloadModel model{};
  unsigned ranks = 1;
  std::uint64_t scale = 1;            // page bytes are divided by this
  std::uint64_t object_bytes = 0;     // scaled
  std::uint64_t pages = 0;            // looked up by one rank
  std::uint64_t best_pages_hit = 0;   // of these, with a cache that forgets nothing
  std::uint64_t unique_bytes = 0;     // of all objects of all ranks, scaled
  std::uint64_t fetch_calls_max = 0;  // of one rank
};

// Pages of a request: the whole ones of its prompt; a partial one is never cached.
std::uint64_t pages_of(const TraceRequest& request);

// scale 0: the smallest power of two, at least 256, for which the pool holds an eighth of the
// unique bytes.
ReplayPlan plan_replay(const Trace& trace, const WorkloadModel& model, unsigned ranks,
                       std::uint64_t pool_bytes, std::uint64_t scale);

}  // namespace simm::bench
