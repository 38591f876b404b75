// simmctl: looks into a running daemon. See `simmctl --help`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/base/counters.h"
#include "libclient/tools/simmctl/admin_client.h"
#include "libclient/tools/simmctl/histograms.h"
#include "libclient/tools/simmctl/table.h"
#include "simm/version.h"

namespace {

using nlohmann::ordered_json;

struct Wishes {
  std::string admin_socket;
  std::string counters_file;
  std::string prefix;
  std::string daemon;  // of the cluster, "storage/host7" or "host7"; empty: the one that we ask
  std::uint32_t timeout_ms = 5000;
  bool json = false;
};

int failed(const simm::Error& error) {
  std::fprintf(stderr, "simmctl: %s\n", error.context.c_str());
  return 1;
}

// Straight from the file: works while the daemon is too busy to answer, and after its death.
simm::Expected<std::string> read_counters(const Wishes& wishes) {
  simm::Expected<simm::base::CountersReader> reader =
      simm::base::CountersReader::open(wishes.counters_file);
  if (!reader) return std::move(reader).error();
  ordered_json all = ordered_json::object();
  for (const auto& [name, value] : reader->snapshot()) {
    if (name.compare(0, wishes.prefix.size(), wishes.prefix) == 0) all[name] = value;
  }
  return all.dump();
}

// Counters of another daemon, through the manager.
simm::Expected<std::string> far_stats(simm::ctl::AdminClient& client, const Wishes& wishes) {
  simm::Expected<std::string> text = client.ask("daemon_stats", wishes.daemon);
  if (!text || wishes.prefix.empty()) return text;
  const ordered_json all = ordered_json::parse(*text, nullptr, false);
  ordered_json wanted = ordered_json::object();
  for (const auto& [name, value] : all.items()) {
    if (name.compare(0, wishes.prefix.size(), wishes.prefix) == 0) wanted[name] = value;
  }
  return wanted.dump();
}

simm::Expected<std::string> ask(const std::string& command, const Wishes& wishes) {
  if (command == "stats" && !wishes.counters_file.empty()) return read_counters(wishes);
  const std::string path =
      wishes.admin_socket.empty() ? simm::ctl::find_admin_socket() : wishes.admin_socket;
  simm::Expected<simm::ctl::AdminClient> client =
      simm::ctl::AdminClient::connect(path, wishes.timeout_ms);
  if (!client) return std::move(client).error();
  if (command == "stats" && !wishes.daemon.empty()) return far_stats(*client, wishes);
  if (command == "stats") return client->ask(command, wishes.prefix);
  return client->ask(command, command == "peers" ? wishes.daemon : std::string());
}

int run(const std::string& command, const Wishes& wishes) {
  const simm::Expected<std::string> text = ask(command, wishes);
  if (!text) return failed(text.error());
  const ordered_json value = ordered_json::parse(*text, nullptr, false);
  if (value.is_discarded()) {
    return failed({simm::Status::incompatible, "the daemon's answer is not JSON: " + *text});
  }
  // Both replace what is not UTF-8: an argument of a client may end up in a name.
  const std::string shown =
      wishes.json
          ? value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"
          : simm::ctl::table_of(command == "stats" ? simm::ctl::with_histograms(value) : value);
  std::fputs(shown.c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Looks into a running SiMM daemon.");
  Wishes wishes;
  app.set_version_flag("--version", SIMM_VERSION_STRING);
  app.add_option("--admin", wishes.admin_socket,
                 "Admin socket; default: beside $SIMM_SOCKET, else in /run/simm, "
                 "$XDG_RUNTIME_DIR/simm or /tmp/simm-<uid>");
  app.add_option("--timeout-ms", wishes.timeout_ms, "How long the daemon may take to answer")
      ->check(CLI::Range(1, 600'000));
  app.add_flag("--json", wishes.json, "JSON instead of a table");
  app.require_subcommand(1);
  app.fallthrough();  // options may stand behind the command
  app.add_subcommand("status", "Version, role, uptime, sockets, pool");
  app.add_subcommand("sessions", "Attached client processes");
  app.add_subcommand("regions", "Memory of clients: kind, size, and why it is that kind");
  CLI::App* const stats = app.add_subcommand("stats", "Counters");
  stats->add_option("prefix", wishes.prefix, "Only names that begin with it: session., store.get");
  stats->add_option("--counters", wishes.counters_file,
                    "Read this counters file instead of asking the daemon");
  stats->add_option("--daemon", wishes.daemon,
                    "Of this daemon of the cluster, asked through the manager");
  app.add_subcommand("nodes", "Daemons of the cluster, as its manager sees them");
  app.add_subcommand("slots", "Which daemon owns how many slots of the map");
  CLI::App* const peers =
      app.add_subcommand("peers", "Connections to other daemons, and what is wrong with them");
  peers->add_option("daemon", wishes.daemon,
                    "Those of this daemon of the cluster, asked through the manager");
  app.add_subcommand("errors", "Distinct errors with how often and when they occurred");
  CLI11_PARSE(app, argc, argv);
  return run(app.get_subcommands().front()->get_name(), wishes);
}
