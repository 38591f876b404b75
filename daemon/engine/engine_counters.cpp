#include "daemon/engine/engine_counters.h"

#include <string>

namespace simm::engine {

EngineCounters::EngineCounters(base::CounterSet& set, std::string_view prefix) {
  set.begin_writer();
  const std::string name(prefix);
  batches = set.counter(name + ".batches");
  pages = set.counter(name + ".pages");
  bytes_moved = set.counter(name + ".bytes_moved");
  pool_exhausted = set.counter(name + ".pool_exhausted");
  no_credit = set.counter(name + ".no_credit");
  unreachable = set.counter(name + ".unreachable");
  requests = set.counter(name + ".requests");
  cancels = set.counter(name + ".cancels");
  resets = set.counter(name + ".resets");
  retries = set.counter(name + ".retries");
  reroutes = set.counter(name + ".reroutes");
  declined = set.counter(name + ".declined");
  timeouts = set.counter(name + ".timeouts");
  late_replies = set.counter(name + ".late_replies");
  bad_replies = set.counter(name + ".bad_replies");
  corrupt = set.counter(name + ".corrupt");
  size_mismatches = set.counter(name + ".size_mismatches");
  fences_overdue = set.counter(name + ".fences_overdue");
  complete_ns = base::Histogram(set, name + ".complete_ns");
  post_stage_ns = base::Histogram(set, name + ".stage.post_ns");
  wire_stage_ns = base::Histogram(set, name + ".stage.wire_ns");
  complete_stage_ns = base::Histogram(set, name + ".stage.complete_ns");
}

}  // namespace simm::engine
