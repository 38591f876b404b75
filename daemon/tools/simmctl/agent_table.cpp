#include "daemon/tools/simmctl/agent_table.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/agent_counter.h"

namespace simm::ctl {

using nlohmann::ordered_json;

ordered_json table_by_agent(const ordered_json& counters, std::string_view section) {
  std::vector<std::string> names;  // in the order of their first appearance
  std::map<std::string, std::map<std::uint32_t, std::uint64_t>> values;
  std::set<std::uint32_t> agents;
  for (const auto& [full, value] : counters.items()) {
    const auto counter = base::agent_counter(full);
    if (!counter || counter->section != section) continue;
    const std::string name(counter->name);
    if (values.count(name) == 0) names.push_back(name);
    values[name][counter->agent] = value.get<std::uint64_t>();
    agents.insert(counter->agent);
  }
  ordered_json rows = ordered_json::array();
  for (const std::string& name : names) {
    ordered_json row = {{"counter", name}};
    std::uint64_t sum = 0;
    for (const std::uint32_t agent : agents) {
      row[std::string(section) + " " + std::to_string(agent)] = values[name][agent];
      sum += values[name][agent];
    }
    if (agents.size() > 1) row["all"] = sum;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace simm::ctl
