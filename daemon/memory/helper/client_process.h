// ClientProcess: the process that connected, named so that no other process can be taken for it:
// pid, start time, user, and a pidfd. Used by the helper around every look at /proc/<pid>. Thread:
// any.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "simm/expected.h"

namespace simm::memory {

struct ClientProcess {
  int pidfd = -1;
  pid_t pid = 0;
  uid_t uid = 0;
  std::uint64_t start_time_ticks = 0;
};

// Before looking: pid is the pidfd's, started when it did then, and all four of its user ids are
// the one that connected (a program that it executed may run as somebody else). permission_denied
// if not.
Outcome check_before(const ClientProcess& client);
// After looking: it is alive, so its pid was not anybody else's meanwhile. permission_denied if
// not.
Outcome check_after(const ClientProcess& client);

}  // namespace simm::memory
