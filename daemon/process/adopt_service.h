// The two ways to have a privileged helper (daemon/memory/helper/adopt_helper.h): forked off a
// daemon that was started as root, or a service of its own, `simmd adopt`, that a daemon without
// privileges connects to. The daemon that talks to clients has none of the helper's privileges in
// either. Thread: start-up, before any other thread.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/control/service_manager.h"
#include "daemon/memory/helper/helper_link.h"
#include "simm/expected.h"

namespace simm {

// As configured (memory.adopt_socket), or a fork of this process when it is root. Call before
// become_user() and before any thread.
memory::HelperLink reach_adopt_helper(const base::Config& config);

// Is the helper: serves one daemon after the other on `path` (owned by the configured user, for it
// alone) or on an inherited socket, whoever made its permissions. Only the configured user (without
// one, the helper's own) and root are served, by what the kernel recorded at connect; others are
// hung up on and logged. Returns only with an error.
Outcome run_adopt_service(const base::Config& config, const std::string& path,
                          std::vector<control::InheritedSocket> inherited);

}  // namespace simm
