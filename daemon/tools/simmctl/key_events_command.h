// `simmctl events --keys`: which keys are stored and removed in the pool of a daemon, by their
// hashes, line by line while it happens. What is lost is said in its place, and so is the next life
// of the daemon. Thread: the main thread.
#pragma once

#include <optional>
#include <string>

#include "daemon/tools/simmctl/report_command.h"

namespace simm::ctl {

struct KeyEventsWishes {
  std::optional<std::string> tenant;      // nothing: of all
  std::optional<std::string> name_space;  // the same; empty: the default one
  bool present = false;                   // keys that are there are told first, and anew at SIGUSR1
  bool runs = false;                      // a line for many keys: KeyRuns
};

// Returns the exit code.
[[nodiscard]] int run_key_events(const AdminWishes& admin, const KeyEventsWishes& wishes);

}  // namespace simm::ctl
