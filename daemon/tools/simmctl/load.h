// What a daemon did between two moments, out of its load (base::Load) at each: the numbers of
// `simmctl top`.
// Thread: any, pure functions.
#pragma once

#include <nlohmann/json.hpp>

#include "daemon/base/load.h"

namespace simm::ctl {

using base::Load;

// `counters`: an object of names and values.
Load load_of(const nlohmann::ordered_json& counters);

// Rates of the time between two loads, as JSON: members end in their unit. A daemon that was
// restarted in between counts from zero.
nlohmann::ordered_json rates_of(const Load& before, const Load& after, double seconds);

// What clients of each tenant moved and waited for, between two answers to `tenants`.
nlohmann::ordered_json tenant_rates_of(const nlohmann::ordered_json& before,
                                       const nlohmann::ordered_json& after, double seconds);

}  // namespace simm::ctl
