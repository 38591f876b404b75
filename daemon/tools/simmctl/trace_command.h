// `simmctl trace`: has daemons record the stages of some operations for a while, and writes what
// they recorded as one file for Chrome or Perfetto. Thread: the main thread; waits for each daemon
// in a thread of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/tools/simmctl/report_command.h"

namespace simm::ctl {

struct TraceWishes {
  double seconds = 5;
  std::string sample = "1/64";
  std::string file;               // empty or "-": standard output
  std::vector<std::string> also;  // admin sockets of other daemons of this host
  std::uint64_t seed = 0;         // 0: drawn by each daemon
};

// "1/64" or "64" is 64; 0: neither.
std::uint32_t one_in_of(const std::string& sample);

// Returns the exit code.
[[nodiscard]] int run_trace(const AdminWishes& admin, const TraceWishes& wishes);

}  // namespace simm::ctl
