// `simmctl version`: what this program, the library under it and the daemon are, and whether they
// fit together. Thread: the main thread.
#pragma once

#include "daemon/tools/simmctl/report_command.h"

namespace simm::ctl {

// Returns the exit code: kMismatch when clients with this library are refused by that daemon.
[[nodiscard]] int run_version(const AdminWishes& admin);

}  // namespace simm::ctl
