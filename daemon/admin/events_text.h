// events_text: a page of a daemon's events as JSON, for simmctl. Thread: control.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/event_log.h"
#include "simm/expected.h"

namespace simm::control {

// `argument`: "SINCE" or "SINCE KIND": events with larger numbers, of that kind alone.
// invalid_argument: it is something else.
Expected<std::string> events_text(const base::EventLog& events, std::string_view argument);

}  // namespace simm::control
