// A JSON reply as a table for people: a list of objects has a column per member, an object a line
// per member. What is nested stays JSON.
// Thread: any, a pure function.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace simm::ctl {

std::string table_of(const nlohmann::ordered_json& value);

}  // namespace simm::ctl
