// What every daemon answers simmctl in the same words. Thread: control.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/counters.h"
#include "daemon/base/error_log.h"
#include "simm/expected.h"

namespace simm::control {

// Counters whose names begin with `prefix`.
std::string stats_text(const base::CounterSet& counters, std::string_view prefix);
std::string errors_text(const base::ErrorLog& errors, base::TimeNs now_ns);
// `known`: the commands that there are.
Error unknown_command(std::string_view known);

}  // namespace simm::control
