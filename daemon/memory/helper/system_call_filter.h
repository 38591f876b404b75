// System call filters for the rest of this process's life. Another one on top can only take more
// away. Allocates. Thread: the process has one.
#pragma once

#include <span>

#include "simm/expected.h"

namespace simm::memory {

// What is not named fails with EPERM. `allowed`: numbers of libseccomp (SCMP_SYS). no_new_privs is
// set before.
Outcome install_system_call_filter(std::span<const int> allowed);

// What is named fails with EPERM, and all else goes on. For a process that runs code of others, of
// which nobody knows what it calls.
Outcome deny_system_calls(std::span<const int> denied);

}  // namespace simm::memory
