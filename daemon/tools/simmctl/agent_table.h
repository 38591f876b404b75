// Counters of a section, told apart by data agent. Thread: any, pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace simm::ctl {

// Of counters (an object of names and values) those of one section: a row for each name, a column
// for each agent and, when there are several, their sum.
nlohmann::ordered_json table_by_agent(const nlohmann::ordered_json& counters,
                                      std::string_view section);

}  // namespace simm::ctl
