// A system call filter for the rest of this process's life: what is not named fails with EPERM.
// Another one on top can only take more away. Allocates. Thread: the process has one.
#pragma once

#include <span>

#include "simm/expected.h"

namespace simm::memory {

// `allowed`: numbers of libseccomp (SCMP_SYS). no_new_privs is set before.
Outcome install_system_call_filter(std::span<const int> allowed);

}  // namespace simm::memory
