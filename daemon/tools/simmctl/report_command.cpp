#include "daemon/tools/simmctl/report_command.h"

#include "daemon/base/counters.h"
#include "daemon/tools/simmctl/agent_table.h"
#include "daemon/tools/simmctl/histograms.h"
#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

ordered_json with_prefix(const ordered_json& all, const std::string& prefix) {
  ordered_json wanted = ordered_json::object();
  for (const auto& [name, value] : all.items()) {
    if (name.compare(0, prefix.size(), prefix) == 0) wanted[name] = value;
  }
  return wanted;
}

// Straight from the file: works while the daemon is too busy to answer, and after its death.
Expected<ordered_json> read_counters(const ReportWishes& wishes) {
  Expected<base::CountersReader> reader = base::CountersReader::open(wishes.counters_file);
  if (!reader) return std::move(reader).error();
  ordered_json all = ordered_json::object();
  for (const auto& [name, value] : reader->snapshot()) all[name] = value;
  return with_prefix(all, wishes.argument);
}

// The whole of a section of counters, told apart by data agent. Such a daemon has none: empty.
Expected<ordered_json> by_agent(AdminClient& client, const std::string& section) {
  auto counters = ask_json(client, "stats", section + ".");
  if (!counters) return counters;
  return table_by_agent(*counters, section);
}

// By shard and by tenant. Who has no shard of the pool has neither.
Expected<ordered_json> store_report(AdminClient& client) {
  auto shards = by_agent(client, "store");
  if (!shards) return shards;
  ordered_json report = {{"shards", *shards}, {"tenants", ordered_json::array()}};
  if (shards->empty()) return report;
  auto tenants = ask_json(client, "store_tenants");
  if (!tenants) return tenants;
  report["tenants"] = std::move(*tenants);
  return report;
}

Expected<ordered_json> answer(const std::string& command, const AdminWishes& admin,
                              const ReportWishes& wishes) {
  if (command == "stats" && !wishes.counters_file.empty()) return read_counters(wishes);
  auto client = reach(admin);
  if (!client) return std::move(client).error();
  if (command == "store") return store_report(*client);
  if (command == "cache") return by_agent(*client, "shared_reads");
  if (command == "nodes") return all_nodes(*client, '+');
  if (wishes.daemon.empty()) return ask_json(*client, command, wishes.argument);
  auto all = ask_json(*client, "daemon_stats", wishes.daemon);
  if (!all) return all;
  return with_prefix(*all, wishes.argument);
}

}  // namespace

Expected<AdminClient> reach(const AdminWishes& admin) {
  const std::string path = admin.admin_socket.empty() ? find_admin_socket() : admin.admin_socket;
  return AdminClient::connect(path, admin.timeout_ms);
}

Expected<ordered_json> ask_json(AdminClient& client, const std::string& command,
                                const std::string& argument) {
  const auto text = client.ask(command, argument);
  if (!text) return text.error();
  ordered_json value = ordered_json::parse(*text, nullptr, false);
  if (value.is_discarded()) {
    return Error{Status::incompatible, "the daemon's answer is not JSON: " + text->substr(0, 200)};
  }
  return value;
}

// A large cluster does not fit into one answer. A manager of an older release gives all at once.
Expected<ordered_json> all_nodes(AdminClient& client, char sign) {
  auto all = ask_json(client, "nodes", std::string(1, sign));
  while (all && all->contains("next")) {
    const std::string behind = (*all)["next"].get<std::string>();
    all->erase("next");
    auto page = ask_json(client, "nodes", sign + behind);
    if (!page) return page;
    ordered_json& more = (*page)["nodes"];
    for (ordered_json& node : more) (*all)["nodes"].push_back(std::move(node));
    if (page->contains("next")) (*all)["next"] = (*page)["next"];
  }
  return all;
}

Expected<std::string> data_socket_of(const AdminWishes& admin) {
  auto client = reach(admin);
  if (!client) return std::move(client).error();
  const auto status = ask_json(*client, "status");
  if (!status) return status.error();
  const auto sockets = status->find("sockets");
  if (sockets == status->end() || sockets->empty()) {
    return Error{Status::unreachable,
                 "a " + status->value("role", "daemon") +
                     " daemon has no clients: ask a node daemon, or name its socket with --socket"};
  }
  return sockets->front().value("path", std::string());
}

int run_report(const std::string& command, const AdminWishes& admin, const ReportWishes& wishes) {
  const auto value = answer(command, admin, wishes);
  if (!value) return failed(value.error());
  return show(command == "stats" && !admin.json ? with_histograms(*value) : *value, admin.json);
}

}  // namespace simm::ctl
