// Records of traced operations as JSON in the trace event format of Chrome, which Perfetto reads
// too: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
// A complete event ("X") for each operation and, inside it, for each of its stages; metadata events
// ("M") name processes after daemons and threads after data agents. Times are microseconds of
// CLOCK_MONOTONIC, which all processes of a host share, and hosts do not.
// Thread: any, pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace simm::ctl {

// `daemons`: what each daemon answered to "trace". incompatible: it is no such answer.
nlohmann::ordered_json chrome_trace(const std::vector<nlohmann::ordered_json>& daemons);

}  // namespace simm::ctl
