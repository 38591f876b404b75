// kAdminCommands: every question that a daemon answers on its admin socket, a row each. The admin
// server finds commands here, and `simmctl --help` and the completion show these rows; the manual
// page begins each description with the help (manual_test.py --write). Who may ask one may ask all
// (AdminServer). Thread: any.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/log.h"

namespace simm::base {

enum class AdminCommand : std::uint8_t {
  status,
  sessions,
  regions,
  sockets,
  tenants,
  store_tenants,
  hot,
  nics,
  gpus,
  stats,
  totals,
  daemon_stats,
  limits,
  config,
  errors,
  events,
  key_events,
  log,
  nodes,
  slots,
  peers,
  managers,
  moves,
  drain,
  trace,
};

// Which daemons answer: those with data agents (all, node, storage), or the manager as well.
enum class AdminScope : std::uint8_t { data, everywhere };

enum class AdminUse : std::uint8_t {
  report,   // simmctl has a command of this name, which asks and shows the answer
  options,  // simmctl has a command of this name with options of its own
  inner,    // other commands of simmctl ask it
};

// What simmctl takes behind the command. Of a flag ("--ended") the word is sent, else the value.
struct AdminArgument {
  std::string_view name;  // empty: none
  std::string_view help;
  std::string_view choices;  // the values that there are (choice.h); empty: any
};

struct AdminCommandRow {
  AdminCommand command;
  std::string_view name;
  AdminScope scope;
  AdminUse use;
  std::string_view help;
  AdminArgument argument = {};
};

inline constexpr std::array kAdminCommands = {
    AdminCommandRow{AdminCommand::status, "status", AdminScope::everywhere, AdminUse::report,
                    "Version, role, uptime, sockets, pool, place in the cluster"},
    AdminCommandRow{AdminCommand::sessions,
                    "sessions",
                    AdminScope::data,
                    AdminUse::report,
                    "Attached client processes",
                    {"--ended", "The last ones that are over, and why they ended", ""}},
    AdminCommandRow{AdminCommand::regions, "regions", AdminScope::data, AdminUse::report,
                    "Memory of clients: kind, GPU, size, and why it is that kind"},
    AdminCommandRow{AdminCommand::sockets, "sockets", AdminScope::data, AdminUse::report,
                    "Listening sockets and how many sessions they have"},
    AdminCommandRow{AdminCommand::tenants, "tenants", AdminScope::data, AdminUse::report,
                    "Tenants: sessions, mapped memory, shares, bytes moved, waits"},
    AdminCommandRow{AdminCommand::store_tenants, "store_tenants", AdminScope::data, AdminUse::inner,
                    "What the store says of tenants"},
    AdminCommandRow{AdminCommand::hot, "hot", AdminScope::data, AdminUse::report,
                    "Keys that the shards of this daemon are asked for most, as hashes"},
    AdminCommandRow{AdminCommand::nics,
                    "nics",
                    AdminScope::data,
                    AdminUse::report,
                    "RDMA NICs of the host, and the memory to which each is near",
                    {"--check", "What to expect of each, what was found, what to do", ""}},
    AdminCommandRow{AdminCommand::gpus,
                    "gpus",
                    AdminScope::data,
                    AdminUse::report,
                    "GPUs that clients have memory on: helper, copies, tier, last error",
                    {"tier", "How large tiers may be until the daemon ends: 0, 8GiB, 0=8GiB", ""}},
    AdminCommandRow{AdminCommand::stats,
                    "stats",
                    AdminScope::everywhere,
                    AdminUse::report,
                    "Counters",
                    {"prefix", "Only names that begin with it: session., store.0", ""}},
    AdminCommandRow{AdminCommand::totals, "totals", AdminScope::everywhere, AdminUse::report,
                    "Counters, with those of the data agents added up"},
    AdminCommandRow{AdminCommand::daemon_stats, "daemon_stats", AdminScope::data, AdminUse::inner,
                    "Counters of another daemon of the cluster"},
    AdminCommandRow{AdminCommand::limits, "limits", AdminScope::everywhere, AdminUse::report,
                    "Every limit and how often somebody ran into it"},
    AdminCommandRow{AdminCommand::config, "config", AdminScope::everywhere, AdminUse::options,
                    "Every key of the running daemon and who set it"},
    AdminCommandRow{AdminCommand::errors, "errors", AdminScope::everywhere, AdminUse::report,
                    "Distinct errors with how often and when they occurred"},
    AdminCommandRow{AdminCommand::events, "events", AdminScope::everywhere, AdminUse::options,
                    "What happened to the daemon and its peers"},
    AdminCommandRow{AdminCommand::key_events, "key_events", AdminScope::data, AdminUse::inner,
                    "What becomes of keys, as hashes"},
    AdminCommandRow{AdminCommand::log,
                    "log",
                    AdminScope::everywhere,
                    AdminUse::report,
                    "The log level, or a change of it until the daemon ends",
                    {"level", "The level that it shall have", kLogLevelNames}},
    AdminCommandRow{AdminCommand::nodes, "nodes", AdminScope::everywhere, AdminUse::report,
                    "Daemons of the cluster, as its manager sees them"},
    AdminCommandRow{AdminCommand::slots, "slots", AdminScope::everywhere, AdminUse::report,
                    "Which daemon owns how many slots of the map"},
    AdminCommandRow{
        AdminCommand::peers,
        "peers",
        AdminScope::data,
        AdminUse::report,
        "Connections to other daemons, and what is wrong with them",
        {"daemon", "Those of this daemon of the cluster, asked through the manager", ""}},
    AdminCommandRow{AdminCommand::managers, "managers", AdminScope::everywhere, AdminUse::report,
                    "Managers of the cluster: which one leads, with which map"},
    AdminCommandRow{
        AdminCommand::moves,
        "moves",
        AdminScope::data,
        AdminUse::report,
        "Objects that leave this daemon with their slots: how many are left, how fast",
        {"daemon", "Those of this daemon of the cluster, asked through the manager", ""}},
    AdminCommandRow{AdminCommand::drain, "drain", AdminScope::data, AdminUse::options,
                    "Have a storage daemon hand its slots over while it goes on serving"},
    AdminCommandRow{AdminCommand::trace, "trace", AdminScope::data, AdminUse::options,
                    "Record the stages of some operations, for Chrome or Perfetto"},
};

constexpr const AdminCommandRow& row_of(AdminCommand command) noexcept {
  return kAdminCommands[static_cast<std::size_t>(command)];
}
static_assert(std::all_of(kAdminCommands.begin(), kAdminCommands.end(),
                          [](const AdminCommandRow& row) { return &row == &row_of(row.command); }),
              "rows stand in the order of their commands");

// What a daemon with (scope data) or without data agents answers.
constexpr bool answers(const AdminCommandRow& row, AdminScope daemon) noexcept {
  return daemon == AdminScope::data || row.scope == AdminScope::everywhere;
}

// Null: there is no such command for this daemon.
constexpr const AdminCommandRow* find_admin_command(std::string_view name,
                                                    AdminScope daemon) noexcept {
  const auto* const found =
      std::find_if(kAdminCommands.begin(), kAdminCommands.end(),
                   [&](const AdminCommandRow& row) { return row.name == name; });
  return found != kAdminCommands.end() && answers(*found, daemon) ? found : nullptr;
}

// Their names, for the error of a command that there is not.
inline std::string admin_command_names(AdminScope daemon) {
  std::string names;
  for (const AdminCommandRow& row : kAdminCommands) {
    if (!answers(row, daemon)) continue;
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace simm::base
