// How simmctl ends. Part of its interface: scripts depend on the numbers (simmctl.1).
// Thread: any, a pure function.
#pragma once

#include "simm/status.h"

namespace simm::ctl {

enum ExitCode : int {
  kDone = 0,         // and of get, exists, delete: a hit
  kMiss = 1,         // get, exists, delete: there is no such object
  kUsage = 2,        // the command line, a key, a file or a configuration is wrong
  kUnreachable = 3,  // no daemon there, or none that the question is about
  kDenied = 4,       // the kernel or the daemon says no
  kTimeout = 5,      // the daemon did not answer in time
  kMismatch = 6,     // the daemon speaks another version
  kFailed = 7,       // everything else
};

constexpr int exit_code_of(Status status) noexcept {
  switch (status) {
    case Status::ok:
      return kDone;
    case Status::not_found:
      return kMiss;
    case Status::invalid_argument:
    case Status::exists:
      return kUsage;
    case Status::unreachable:
      return kUnreachable;
    case Status::permission_denied:
      return kDenied;
    case Status::timeout:
      return kTimeout;
    case Status::incompatible:
      return kMismatch;
    default:
      return kFailed;
  }
}

}  // namespace simm::ctl
