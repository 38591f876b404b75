// What every daemon answers simmctl in the same words. Thread: control.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/config.h"
#include "daemon/base/counters.h"
#include "daemon/base/error_log.h"
#include "daemon/base/log.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "simm/expected.h"

namespace simm::control {

// The error of AdminSource::report_without_names().
Error no_answer_without_names();
std::string errors_text(const base::ErrorLog& errors, base::TimeNs now_ns);
// Every configuration key with its value and who gave it. The hash seed is not shown.
std::string config_text(const base::Config& config);
// Every limit with its value and how often somebody ran into it.
std::string limits_text(const base::CounterSet& counters, const base::Config& config);
// Where numbers are read over HTTP; "off": nowhere, or there is none.
std::string metrics_text(const MetricsEndpoint* metrics);
// The log level, after it was changed to `level` unless that is empty.
Expected<std::string> log_text(base::Log& log, std::string_view level);

}  // namespace simm::control
