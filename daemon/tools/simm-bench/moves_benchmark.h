// `simm-bench moves`: what clients notice when objects follow their slots.
//
//   moves.prefix_hits   the trace is replayed until a cluster of storage daemons is warm. Then one
//                       joins, stops or drains, and the next minute of the trace comes at its own
//                       pace. Value: part of the blocks that hit, up to the first miss of each
//                       request; baseline: the same in a cluster where nothing changes.
//   moves.get_bw        bytes of gets in a second while objects move, the median of seconds;
//                       baseline: before and after that.
//   moves.hottest       while nothing changes: what the most loaded owner serves; baseline: the
//                       mean of all.
//
// Every byte that comes is compared with what its key demands.
// Thread: the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct MovesOptions {
  std::string trace_path;  // empty: one is generated
  std::uint64_t seed = 1;
  unsigned owners = 8;         // before one joins
  double cache = 0.5;          // what the owners hold together, in unique blocks of the warm-up
  unsigned move_seconds = 30;  // that an owner's objects take by the limit of bytes in a second
  std::string only = "all";    // or one of moves_cases()
  bool quick = false;
  bool json = false;
};

std::vector<std::string> moves_cases();

Outcome run_moves_benchmark(const MovesOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
