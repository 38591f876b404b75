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
  member_joined,
  member_away,
  member_returned,
  member_draining,
  member_gone,
  paths_broken,
  paths_back,
  cut_off,
  heard_again,
  map_not_stored,
  sent_away,
  leads,
  stands_by,
  peer_lost,
  link_lost,
  peer_back,
  drain_begun,
  drain_ended,
  move_begun,
  move_ended,
  rail_lost,
  rail_back,
  gpu_tier_small,
  gpu_tier_revoked,
  gpu_lent,
  gpu_reclaimed,
  tenant_over_budget,
  limit_reached,
  pool_full,
  lost_in_lease,
  damaged,
  compaction,
  fence_overdue,
  thread_slow,
  thread_back,
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
    EventKindRow{EventKind::member_joined, "member_joined", LogLevel::info, "cluster",
                 "a member has joined",
                 "A daemon has joined; elsewhere than at the manager: has slots."},
    EventKindRow{EventKind::member_away, "member_away", LogLevel::warning, "cluster",
                 "a member is away",
                 "The manager does not hear a daemon any more; it keeps its slots."},
    EventKindRow{EventKind::member_returned, "member_returned", LogLevel::info, "cluster",
                 "a member is back",
                 "A daemon that was away is heard again, or one that drained takes slots again."},
    EventKindRow{EventKind::member_draining, "member_draining", LogLevel::info, "cluster",
                 "a member drains", "A daemon gives its slots to others."},
    EventKindRow{EventKind::member_gone, "member_gone", LogLevel::warning, "cluster",
                 "a member is gone",
                 "A daemon has left or stayed away for too long: others have its slots."},
    EventKindRow{EventKind::paths_broken, "paths_broken", LogLevel::warning, "cluster",
                 "a member is heard here, and others can not reach it",
                 "Daemons have no connection to one that the manager hears: how many of how many."},
    EventKindRow{EventKind::paths_back, "paths_back", LogLevel::info, "cluster",
                 "all reach a member again", "All reach it again."},
    EventKindRow{EventKind::cut_off, "cut_off", LogLevel::warning, "cluster",
                 "too few daemons are heard, nobody is declared gone",
                 "The manager hears too few daemons to declare anybody gone."},
    EventKindRow{EventKind::heard_again, "heard_again", LogLevel::info, "cluster",
                 "enough daemons are heard again", "It hears enough of them again."},
    EventKindRow{EventKind::map_not_stored, "map_not_stored", LogLevel::error, "cluster",
                 "the newest map can not be stored, so nobody gets it",
                 "The manager can not store its newest map, and why."},
    EventKindRow{EventKind::sent_away, "sent_away", LogLevel::info, "cluster",
                 "a daemon is sent away", "The manager ended the connection of a daemon, and why."},
    EventKindRow{EventKind::leads, "leads", LogLevel::info, "cluster", "leads",
                 "Of several managers this one keeps the map from now on."},
    EventKindRow{EventKind::stands_by, "stands_by", LogLevel::info, "cluster", "stands by",
                 "Another manager leads, or none does, and why."},
    EventKindRow{EventKind::peer_lost, "peer_lost", LogLevel::warning, "cluster",
                 "a peer is out of reach",
                 "The last connection to another daemon is lost, and why."},
    EventKindRow{EventKind::link_lost, "link_lost", LogLevel::info, "cluster",
                 "a connection is lost",
                 "One of several connections to another daemon is lost, and why."},
    EventKindRow{EventKind::peer_back, "peer_back", LogLevel::info, "cluster",
                 "all connections to a peer are back",
                 "All connections to that daemon are there again."},
    EventKindRow{EventKind::drain_begun, "drain_begun", LogLevel::info, "cluster",
                 "hands its slots over to others",
                 "This daemon was asked to drain: what it has, and until when."},
    EventKindRow{EventKind::drain_ended, "drain_ended", LogLevel::info, "cluster",
                 "the drain is over",
                 "That is over: drained, cut short by its deadline, or cancelled; what moved."},
    EventKindRow{EventKind::move_begun, "move_begun", LogLevel::info, "cluster",
                 "objects of lost slots move to the new owners",
                 "Objects of slots that this daemon has lost begin to move to their new owners."},
    EventKindRow{EventKind::move_ended, "move_ended", LogLevel::info, "cluster",
                 "the move of objects is over",
                 "That is over: how many were taken, how many refused, and slots left early."},
    EventKindRow{EventKind::rail_lost, "rail_lost", LogLevel::warning, "rdma",
                 "a queue pair is lost", "RDMA to another daemon over one port is lost, and why."},
    EventKindRow{EventKind::rail_back, "rail_back", LogLevel::info, "rdma",
                 "a queue pair is back", "RDMA to that daemon over that port is there again."},
    EventKindRow{EventKind::gpu_tier_small, "gpu_tier_small", LogLevel::info, "gpu",
                 "a tier gets no more memory of its GPU",
                 "A GPU has no more memory to spare for its tier, which stays smaller; as before."},
    EventKindRow{EventKind::gpu_tier_revoked, "gpu_tier_revoked", LogLevel::info, "gpu",
                 "a tier gives memory back",
                 "Others on a GPU, or an operator, get back memory of its tier; as before."},
    EventKindRow{EventKind::gpu_lent, "gpu_lent", LogLevel::info, "gpu",
                 "a client lends memory of a GPU",
                 "A client lends memory of a GPU to the tier there: session, tenant, GPU, bytes."},
    EventKindRow{EventKind::gpu_reclaimed, "gpu_reclaimed", LogLevel::info, "gpu",
                 "a client takes lent memory back",
                 "That is over: reclaimed by the client, or its session has ended."},
    EventKindRow{EventKind::tenant_over_budget, "tenant_over_budget", LogLevel::warning, "", "",
                 "A client was refused something because its tenant, or its session, has a limit."},
    EventKindRow{EventKind::limit_reached, "limit_reached", LogLevel::info, "limits",
                 "somebody meets a limit",
                 "A limit of LIMITS.md is met, for the first time in a minute."},
    EventKindRow{EventKind::pool_full, "pool_full", LogLevel::warning, "pool",
                 "puts wait for room in vain",
                 "Puts find no room, for the first time in a minute."},
    EventKindRow{EventKind::lost_in_lease, "lost_in_lease", LogLevel::warning, "pool",
                 "objects are lost inside their lease",
                 "Objects are lost inside their lease, and why; as before."},
    EventKindRow{EventKind::damaged, "damaged", LogLevel::error, "pool",
                 "objects are dropped because their bytes are damaged",
                 "Objects are dropped because their bytes are damaged; as before."},
    EventKindRow{EventKind::compaction, "compaction", LogLevel::info, "pool",
                 "objects are moved to join free memory",
                 "A shard begins to move objects to join free memory; as before."},
    EventKindRow{EventKind::fence_overdue, "fence_overdue", LogLevel::warning, "engine",
                 "calls end late, because somebody may still write to their memory",
                 "Calls end later than the grace after their deadline; as before."},
    EventKindRow{EventKind::thread_slow, "thread_slow", LogLevel::warning, "control",
                 "a data thread does not come round", "A data thread has had no turn for 3 s."},
    EventKindRow{EventKind::thread_back, "thread_back", LogLevel::info, "control",
                 "a data thread comes round again", "It has turns again."},
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
