// AgentCounter: the parts of a counter's name that begins with a section and the number of a data
// agent: "store.0.lost_in_lease.removed" is section "store", agent 0, name "lost_in_lease.removed".
// Thread: any, pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace simm::ctl {

struct AgentCounter {
  std::string_view section;
  std::uint32_t agent = 0;
  std::string_view name;
};

// Nothing: a counter of the whole daemon.
std::optional<AgentCounter> agent_counter(std::string_view name) noexcept;

// Of counters (an object of names and values) those of one section: a row for each name, a column
// for each agent and, when there are several, their sum.
nlohmann::ordered_json table_by_agent(const nlohmann::ordered_json& counters,
                                      std::string_view section);

}  // namespace simm::ctl
