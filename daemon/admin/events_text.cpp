#include "daemon/admin/events_text.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/base/json_text.h"
#include "daemon/base/wall_time.h"

namespace simm::control {

Expected<std::string> events_text(const base::EventLog& events, std::string_view argument) {
  using nlohmann::ordered_json;
  std::uint64_t since = 0;
  const char* const end = argument.data() + argument.size();
  const auto [number_end, failure] = std::from_chars(argument.data(), end, since);
  std::string_view kind(number_end, static_cast<std::size_t>(end - number_end));
  if (!kind.empty() && kind.front() == ' ') kind.remove_prefix(1);
  const std::optional<base::EventKind> only = base::parse_event_kind(kind);
  if (failure != std::errc() || (!kind.empty() && !only)) {
    return Error{Status::invalid_argument, "events: ask for a number, or a number and a kind"};
  }
  const base::EventLog::Page page = events.page(since, only);
  ordered_json all = ordered_json::array();
  for (const base::Event& event : page.events) {
    const base::EventKindRow& row = base::row_of(event.kind);
    all.push_back({{"sequence", event.sequence},
                   {"time", base::wall_time_text(event.wall_ns)},
                   {"severity", base::log_level_name(row.severity)},
                   {"kind", row.name},
                   {"subject", event.subject},
                   {"text", event.text},
                   {"left_out", event.left_out}});
  }
  return base::json_text(ordered_json{{"life", std::to_string(events.life())},
                                      {"next", page.next},
                                      {"missed", page.missed},
                                      {"is_last", page.is_last},
                                      {"events", std::move(all)}});
}

}  // namespace simm::control
