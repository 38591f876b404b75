// `simm-bench replay`: client processes replay a conversation trace against a daemon and check
// every byte that they get. Prints progress to stderr, a table to stdout, and as its last line one
// JSON object. Wrong bytes are an error. Thread: the main thread of a process without other threads
// (it forks).
#pragma once

#include <cstdint>
#include <string>

#include "simm/expected.h"

namespace simm::bench {

struct ReplayOptions {
  std::string trace_path;      // empty: generated
  std::uint64_t seed = 1;      // of the generated trace
  std::uint64_t requests = 0;  // 0: all of the trace, or as many as the real one has
  unsigned processes = 4;
  std::string model = "both";
  std::uint64_t scale = 0;       // 0: chosen to fit
  std::uint64_t pool_bytes = 0;  // 0: a third of the free memory, at most 8 GiB
  std::string socket_path;       // empty: a daemon of our own
  bool quick = false;
};

Outcome run_replay(const ReplayOptions& options);

}  // namespace simm::bench
