// What a daemon that was started as root does before it talks to anybody: makes its run directory,
// and becomes the configured user for good.
// Thread: start-up, before any other thread.
#pragma once

#include <string>

#include "daemon/base/config.h"
#include "simm/expected.h"

namespace simm {

// Makes the run directory when it is missing (not its parents), owned by the configured user. One
// that others own, or that everybody may write to, is refused.
Outcome prepare_run_directory(const base::Config& config);

// Each region and session takes descriptors: the soft limit becomes the hard one.
Outcome raise_descriptor_limit();

// Becomes `user` with its groups; an error when it does not exist or we are not root. Nothing is
// done for an empty name. There is no way back, and that is checked.
Outcome become_user(const std::string& user);

}  // namespace simm
