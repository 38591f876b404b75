// `simmctl events`: what happened to a daemon, as a table, or line by line while it happens. What
// is not there any more is said in its place. Thread: the main thread.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/tools/simmctl/report_command.h"

namespace simm::ctl {

struct EventsWishes {
  std::uint64_t since = 0;
  std::string kind;     // empty: all
  bool follow = false;  // also the next life of the daemon, when this one ends
};

// Returns the exit code.
[[nodiscard]] int run_events(const AdminWishes& admin, const EventsWishes& wishes);

}  // namespace simm::ctl
