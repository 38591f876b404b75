// Everything of simmctl that is one question to a daemon and a table, and `simmctl top`.
// Thread: the main thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/tools/simmctl/admin_client.h"
#include "simm/expected.h"

namespace simm::ctl {

struct AdminWishes {
  std::string admin_socket;  // empty: find_admin_socket()
  std::uint32_t timeout_ms = 5000;
  bool json = false;
};

struct ReportWishes {
  std::string counters_file;  // stats: read this file instead of asking
  std::string daemon;         // stats: of the cluster, "storage/host7" or "host7"
  std::string argument;       // as the command's row says (daemon/base/admin_commands.h)
};

// Connected to the daemon that is meant.
Expected<AdminClient> reach(const AdminWishes& admin);

// The parsed answer. incompatible: it is no JSON.
Expected<nlohmann::ordered_json> ask_json(AdminClient& client, const std::string& command,
                                          const std::string& argument = "");

// All daemons of the cluster, page by page. `sign`: '+', or '=' to have the load of each
// (cluster_message.h).
Expected<nlohmann::ordered_json> all_nodes(AdminClient& client, char sign);

// The data socket of that daemon, for who names its admin socket only; unreachable: it has none.
Expected<std::string> data_socket_of(const AdminWishes& admin);

// `command`: the subcommand. Returns the exit code.
[[nodiscard]] int run_report(const std::string& command, const AdminWishes& admin,
                             const ReportWishes& wishes);

}  // namespace simm::ctl
