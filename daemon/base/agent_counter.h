// AgentCounter: the parts of a counter's name that begins with a section and the number of a data
// agent: "store.0.lost_in_lease.removed" is section "store", agent 0, name "lost_in_lease.removed".
// Thread: any, pure functions.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace simm::base {

struct AgentCounter {
  std::string_view section;
  std::uint32_t agent = 0;
  std::string_view name;
};

// Nothing: a counter of the whole daemon.
inline std::optional<AgentCounter> agent_counter(std::string_view name) noexcept {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  AgentCounter found{name.substr(0, dot), 0, {}};
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + dot + 1, end, found.agent);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '.') return std::nullopt;
  found.name = name.substr(static_cast<std::size_t>(parsed.ptr - name.data()) + 1);
  return found;
}

}  // namespace simm::base
