// One tensor-parallel rank of a replay: a client process that does for every request what SGLang's
// HiCache does with its storage. Ranks go through the requests together:
//   probe   batches of exists until a page is missing; the prefix is the shortest of all ranks
//   fetch   batches of get for the prefix; every byte is compared with what its key says
//   store   batches of put, if absent, for the rest (MLA: by rank 0 alone)
// A batch is 128 pages. The next request begins when all ranks have stored.
// Thread: the rank's process, alone; ReplayBoard is shared between the processes.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/tools/simm-bench/replay_plan.h"
#include "daemon/tools/simm-bench/replay_tally.h"

namespace simm::bench {

inline constexpr unsigned kReplayRanksMax = 64;

// What the ranks of one replay share: one writer each but for the prefix, read by the parent.
struct RankCounters : ReplayTally<std::atomic<std::uint64_t>> {
  std::atomic<std::uint64_t> requests;
  std::atomic<std::uint64_t> pages;
  std::atomic<std::uint64_t> pages_hit;
  std::atomic<std::uint64_t> fetch_calls;  // samples that are valid
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct ReplayBoard {
  pthread_barrier_t barrier;
  std::atomic<std::uint64_t> prefix[2];  // of the request at hand and of the next one
  RankCounters ranks[kReplayRanksMax];
};

struct ReplayRankOptions {
  std::string socket_path;
  std::string name_space;
  unsigned rank = 0;
};

// Replays the whole trace. fetch_ns: room for plan.fetch_calls_max samples.
Outcome replay_as_rank(const Trace& trace, const ReplayPlan& plan, const ReplayRankOptions& options,
                       ReplayBoard& board, std::span<std::uint64_t> fetch_ns);

}  // namespace simm::bench
