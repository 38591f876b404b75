// stats_text: a daemon's counters as JSON, for simmctl here and on other hosts. Thread: control.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/counters.h"

namespace simm::control {

// Counters whose names begin with `prefix`.
std::string stats_text(const base::CounterSet& counters, std::string_view prefix);

}  // namespace simm::control
