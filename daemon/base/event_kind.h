// EventKind: what may happen to a daemon that its ring of events (daemon/base/event_log.h) keeps,
// and what the log says of it. OBSERVABILITY.md has the same table; a test compares them.
// Thread: any (constants).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "daemon/base/log.h"

namespace simm::base {

enum class EventKind : std::uint8_t {
  ready,
  stopping,
  pool,
  pool_not_kept,
  recovered,
  session_attached,
  session_ended,
  session_expelled,
  manager_joined,
  manager_lost,
  map,
  sent_away,
  leads,
  stands_by,
  error,
};

struct EventKindRow {
  EventKind kind;
  std::string_view name;
  LogLevel severity;
  std::string_view component;  // of the line in the log; empty: there is none
  std::string_view message;    // the same; empty: whoever tells the event gives it
  std::string_view help;
};

// clang-format off
inline constexpr std::array kEventKinds = {
    EventKindRow{EventKind::ready, "ready", LogLevel::info, "control", "ready",
                 "The daemon serves."},
    EventKindRow{EventKind::stopping, "stopping", LogLevel::info, "control", "stopping",
                 "It ends, and why."},
    EventKindRow{EventKind::pool, "pool", LogLevel::info, "pool", "memory",
                 "The pool is there: its memory, and whether earlier objects are kept."},
    EventKindRow{EventKind::pool_not_kept, "pool_not_kept", LogLevel::warning, "pool",
                 "what an earlier daemon left is not used, the pool is empty",
                 "What an earlier daemon left is not used, and why."},
    EventKindRow{EventKind::recovered, "recovered", LogLevel::info, "pool", "recovered",
                 "The objects of an earlier daemon are back: how many, and how many are lost."},
    EventKindRow{EventKind::session_attached, "session_attached", LogLevel::info, "control",
                 "session opened", "A client has its session."},
    EventKindRow{EventKind::session_ended, "session_ended", LogLevel::info, "control",
                 "session closing", "A session is over, and why."},
    EventKindRow{EventKind::session_expelled, "session_expelled", LogLevel::warning, "control",
                 "session closing", "A session was ended because its client broke the protocol."},
    EventKindRow{EventKind::manager_joined, "manager_joined", LogLevel::info, "cluster", "joined",
                 "The manager has taken this daemon."},
    EventKindRow{EventKind::manager_lost, "manager_lost", LogLevel::warning, "cluster", "",
                 "There is no manager, or it refuses this daemon, and why."},
    EventKindRow{EventKind::map, "map", LogLevel::info, "cluster", "map",
                 "A newer map is used; of a manager: is made."},
    EventKindRow{EventKind::sent_away, "sent_away", LogLevel::info, "cluster",
                 "a daemon is sent away", "The manager ended the connection of a daemon, and why."},
    EventKindRow{EventKind::leads, "leads", LogLevel::info, "cluster", "leads",
                 "Of several managers this one keeps the map from now on."},
    EventKindRow{EventKind::stands_by, "stands_by", LogLevel::info, "cluster", "stands by",
                 "Another manager leads, or none does, and why."},
    EventKindRow{EventKind::error, "error", LogLevel::warning, "", "",
                 "An error that `simmctl errors` did not have before."},
};
// clang-format on

[[nodiscard]] constexpr const EventKindRow& row_of(EventKind kind) noexcept {
  return kEventKinds[static_cast<std::size_t>(kind)];
}

// In the order of the enum, so that row_of() finds them.
static_assert([] {
  for (std::size_t i = 0; i < kEventKinds.size(); ++i) {
    if (static_cast<std::size_t>(kEventKinds[i].kind) != i) return false;
  }
  return true;
}());

[[nodiscard]] constexpr std::optional<EventKind> parse_event_kind(std::string_view name) noexcept {
  for (const EventKindRow& row : kEventKinds) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

}  // namespace simm::base
