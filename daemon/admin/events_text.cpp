#include "daemon/admin/events_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/base/json_text.h"
#include "daemon/base/wall_time.h"

namespace simm::control {
namespace {

// What they say is of daemons, of their pool and of their threads. A kind that is not here, also
// one that is new, is taken for one that names somebody.
constexpr bool is_nameless(base::EventKind kind) noexcept {
  using base::EventKind;
  switch (kind) {
    case EventKind::stopping:
    case EventKind::pool:
    case EventKind::pool_not_kept:
    case EventKind::recovered:
    case EventKind::manager_joined:
    case EventKind::manager_lost:
    case EventKind::map:
    case EventKind::member_joined:
    case EventKind::member_away:
    case EventKind::member_returned:
    case EventKind::member_draining:
    case EventKind::member_gone:
    case EventKind::paths_broken:
    case EventKind::paths_back:
    case EventKind::cut_off:
    case EventKind::heard_again:
    case EventKind::map_not_stored:
    case EventKind::sent_away:
    case EventKind::leads:
    case EventKind::stands_by:
    case EventKind::peer_lost:
    case EventKind::link_lost:
    case EventKind::peer_back:
    case EventKind::rail_lost:
    case EventKind::rail_back:
    case EventKind::gpu_tier_small:
    case EventKind::gpu_tier_revoked:
    case EventKind::gpu_lent:
    case EventKind::gpu_reclaimed:
    case EventKind::limit_reached:
    case EventKind::pool_full:
    case EventKind::lost_in_lease:
    case EventKind::damaged:
    case EventKind::compaction:
    case EventKind::fence_overdue:
    case EventKind::thread_slow:
    case EventKind::thread_back:
      return true;
    default:
      return false;
  }
}

}  // namespace

Expected<std::string> events_text(const base::EventLog& events, std::string_view argument,
                                  EventNames names) {
  using nlohmann::ordered_json;
  std::uint64_t since = 0;
  const bool is_count = argument.substr(0, 1) == "-";
  if (is_count) argument.remove_prefix(1);
  const char* const end = argument.data() + argument.size();
  const auto [number_end, failure] = std::from_chars(argument.data(), end, since);
  if (is_count) since = events.newest() - std::min(since, events.newest());
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
    if (names == EventNames::left_out && !is_nameless(event.kind)) continue;
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
