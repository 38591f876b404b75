// events_text: a page of a daemon's events as JSON, for simmctl. Thread: control.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/event_log.h"
#include "simm/expected.h"

namespace simm::control {

enum class EventNames : bool { left_out, shown };

// `argument`: "SINCE" or "SINCE KIND": events with larger numbers, of that kind alone; or "-COUNT":
// those of the newest COUNT. invalid_argument: it is something else. Without names events of a kind
// that may name a tenant, a client or a key are left out.
Expected<std::string> events_text(const base::EventLog& events, std::string_view argument,
                                  EventNames names = EventNames::shown);

}  // namespace simm::control
