// `simmctl top`: what a daemon or its cluster does right now, anew in every interval. A terminal
// shows one screen, which follows keys and its size. Elsewhere each interval is a block of lines,
// or one line of JSON. Ends when nobody reads any more; a daemon that goes away is waited for.
// Thread: the main thread.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/tools/simmctl/report_command.h"

namespace simm::ctl {

struct TopWishes {
  double interval_s = 2;
  std::uint32_t count = 0;  // intervals; 0: until it is interrupted
  bool of_cluster = false;
  std::string sort = "name";  // a word of top_sorts()
};

// Returns the exit code. With a count a daemon that goes away is a failure.
[[nodiscard]] int run_top(const TopWishes& wishes, const AdminWishes& admin);

}  // namespace simm::ctl
