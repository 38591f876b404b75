// What simmctl says of a drain, as a question to the manager. Thread: control.
#pragma once

#include <string_view>

#include "daemon/cluster/cluster_message.h"
#include "simm/expected.h"

namespace simm::control {

// {"daemon": "storage/a", "deadline_ms": 60000} or {"daemon": "storage/a", "cancel": true}. An
// empty name is the daemon that is asked; 0, or no deadline_ms: there is none. invalid_argument:
// anything else, with the field at fault.
Expected<cluster::Question> drain_question(std::string_view argument);

}  // namespace simm::control
