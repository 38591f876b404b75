#include "daemon/control/stats_text.h"

#include <nlohmann/json.hpp>

#include "daemon/base/json_text.h"

namespace simm::control {

using nlohmann::ordered_json;

std::string stats_text(const base::CounterSet& counters, std::string_view prefix) {
  ordered_json all = ordered_json::object();
  for (const auto& [name, value] : counters.snapshot()) {
    if (name.compare(0, prefix.size(), prefix) == 0) all[name] = value;
  }
  return base::json_text(all);
}

}  // namespace simm::control
