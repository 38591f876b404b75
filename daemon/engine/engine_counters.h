// What an engine counts: outcomes by cause, and how long the stages of a batch take.
// Thread: written by the data agent of the engine.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counters.h"
#include "daemon/base/histogram.h"
#include "ipc/layout.h"
#include "simm/status.h"

namespace simm::engine {

// What became of a page, by the answer that ended it, before public_status() makes fewer of them:
// a get or exists that ends with anything from not_found to wrong_epoch is a miss, and this is why.
enum class PageOutcome : std::uint8_t {
  ok,
  exists,  // an if_absent put met the object
  not_found,
  size_mismatch,
  corrupt,
  unreachable,
  wrong_epoch,
  timeout,
  no_space,
  failed,  // everything else
};
inline constexpr std::size_t kPageOutcomeCount = 10;

PageOutcome page_outcome(Status answer) noexcept;

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
  base::Counter extended;         // looks that gave a batch more time, because its bytes move
  base::Counter cancels;          // asked politely
  base::Counter resets;           // and not politely
  base::Counter retries;          // after a collateral fence
  base::Counter reroutes;         // pages asked again after wrong_epoch
  base::Counter declined;         // pages that a shared-read shard had no room for
  base::Counter timeouts;         // batches with a page that got no answer in time
  base::Counter late_replies;     // answers to requests that were over
  base::Counter bad_replies;      // answers that do not fit their request
  base::Counter corrupt;          // pages whose checksum did not match
  base::Counter size_mismatches;  // pages of another length than the one asked for
  base::Counter fences_overdue;   // batches that were not fenced within fence_grace

  // Of one opcode, what clients asked for: "<prefix>.op.<opcode>.batches", ".bytes" (moved) and
  // ".pages.<outcome>". Without the fetches for others, which would count a page twice.
  struct OfOpcode {
    base::Counter batches;
    base::Counter bytes;
    std::array<base::Counter, kPageOutcomeCount> pages;
  };
  std::array<OfOpcode, ipc::kOpcodeCount> of_opcode;

  base::Histogram complete_ns;  // of all batches: from submit to the completion

  // The stages of one batch of EngineConfig::stages_one_in, each by readings of its own.
  base::Histogram post_stage_ns;      // from submit to the acceptance of the first message
  base::Histogram wire_stage_ns;      // from there to the last answer
  base::Histogram complete_stage_ns;  // from there until the client had the results
};

}  // namespace simm::engine
