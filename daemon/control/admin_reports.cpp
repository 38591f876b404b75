#include "daemon/control/admin_reports.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "simm/version.h"

namespace simm::control {
namespace {

using nlohmann::ordered_json;

}  // namespace

AdminReports::AdminReports(Environment& environment, const AttachServer& server, std::string role,
                           std::uint64_t pool_bytes)
    : environment_(environment),
      server_(server),
      role_(std::move(role)),
      pool_bytes_(pool_bytes),
      started_ns_(environment.clock.now_ns()) {}

std::optional<std::string> AdminReports::report(std::string_view command,
                                                std::string_view argument) const {
  if (command == "status") return status();
  if (command == "sessions") return sessions();
  if (command == "regions") return regions();
  if (command == "stats") return stats(argument);
  if (command == "errors") return errors();
  return std::nullopt;
}

std::string AdminReports::status() const {
  const base::Config& config = environment_.config;
  ordered_json sockets = ordered_json::array();
  for (const base::SocketConfig& socket : config.sockets) {
    sockets.push_back({{"path", socket.path}, {"tenant", socket.tenant}});
  }
  const ordered_json status = {
      {"version", SIMM_VERSION_STRING},
      {"role", role_},
      {"pid", ::getpid()},
      {"uptime_ms", (environment_.clock.now_ns() - started_ns_) / base::kNsPerMs},
      {"sessions", server_.sessions()},
      {"pool_bytes", pool_bytes_},
      {"threads",
       config.threading.mode == base::Threading::shared ? 1 : config.threading.data_agents},
      {"data_agents", config.threading.data_agents},
      {"sockets", sockets},
      {"counters_file", config.counters_file}};
  return status.dump();
}

std::string AdminReports::sessions() const {
  ordered_json all = ordered_json::array();
  for (const Attachment* attachment : server_.attachments()) {
    all.push_back({{"session", attachment->session_id()},
                   {"state", attachment->state_name()},
                   {"tenant", attachment->tenant().name},
                   {"client", attachment->client_name()},
                   {"pid", attachment->peer().pid()},
                   {"uid", attachment->peer().uid()},
                   {"socket", server_.listener_path(attachment->listener())},
                   {"lanes", attachment->lanes()},
                   {"regions", attachment->regions().size()}});
  }
  return all.dump();
}

std::string AdminReports::regions() const {
  ordered_json all = ordered_json::array();
  for (const Attachment* attachment : server_.attachments()) {
    for (const auto& [id, region] : attachment->regions()) {
      all.push_back({{"session", attachment->session_id()},
                     {"region", id},
                     {"handle", region.handle},
                     {"kind", ipc::region_kind_name(region.kind)},
                     {"bytes", region.bytes},
                     {"can_fault", region.can_fault},
                     {"name", region.name},
                     {"reason", region.reason}});
    }
  }
  return all.dump();
}

std::string AdminReports::stats(std::string_view prefix) const {
  ordered_json all = ordered_json::object();
  for (const auto& [name, value] : environment_.counters.snapshot()) {
    if (name.compare(0, prefix.size(), prefix) == 0) all[name] = value;
  }
  return all.dump();
}

std::string AdminReports::errors() const {
  const base::TimeNs now = environment_.clock.now_ns();
  ordered_json all = ordered_json::array();
  for (const base::ErrorEntry& entry : environment_.errors.entries()) {
    all.push_back({{"site", entry.site},
                   {"status", status_name(entry.status)},
                   {"text", entry.text},
                   {"count", entry.count},
                   {"first_ms_ago", (now - entry.first_ns) / base::kNsPerMs},
                   {"last_ms_ago", (now - entry.last_ns) / base::kNsPerMs}});
  }
  return ordered_json{{"errors", all}, {"dropped", environment_.errors.dropped()}}.dump();
}

}  // namespace simm::control
