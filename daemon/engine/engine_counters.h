// What an engine counts: outcomes by cause, and how long the stages of a batch take.
// Thread: written by the data agent of the engine.
#pragma once

#include <string_view>

#include "daemon/base/counters.h"
#include "daemon/base/histogram.h"

namespace simm::engine {

struct EngineCounters {
  EngineCounters() = default;  // counts into unread cells
  // Names are "<prefix>.<counter>", for instance "engine.0.batches".
  EngineCounters(base::CounterSet& set, std::string_view prefix);

  base::Counter batches;
  base::Counter pages;
  base::Counter bytes_moved;
  base::Counter pool_exhausted;   // allocate() had nothing to give
  base::Counter no_credit;        // posts that had to wait
  base::Counter unreachable;      // posts without a path
  base::Counter requests;         // messages posted
  base::Counter cancels;          // asked politely
  base::Counter resets;           // and not politely
  base::Counter retries;          // after a collateral fence
  base::Counter reroutes;         // pages asked again after wrong_epoch
  base::Counter declined;         // pages that a flight shard had no room for
  base::Counter timeouts;         // batches with a page that got no answer in time
  base::Counter late_replies;     // answers to requests that were over
  base::Counter bad_replies;      // answers that do not fit their request
  base::Counter corrupt;          // pages whose checksum did not match
  base::Counter size_mismatches;  // pages of another length than the one asked for
  base::Counter fences_overdue;   // batches that were not fenced within fence_grace

  base::Histogram complete_ns;  // of all batches: from submit to the completion

  // The stages of one batch of EngineConfig::stages_one_in, each by readings of its own.
  base::Histogram post_stage_ns;      // from submit to the acceptance of the first message
  base::Histogram wire_stage_ns;      // from there to the last answer
  base::Histogram complete_stage_ns;  // from there until the client had the results
};

}  // namespace simm::engine
