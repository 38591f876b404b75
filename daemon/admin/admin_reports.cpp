#include "daemon/admin/admin_reports.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/admin/admin_texts.h"
#include "daemon/admin/events_text.h"
#include "daemon/admin/nic_checks.h"
#include "daemon/admin/nics_text.h"
#include "daemon/base/json_text.h"
#include "daemon/cluster/hello/hello.h"
#include "daemon/control/stats_text.h"
#include "daemon/session/session_counters.h"
#include "daemon/transport/rdma/device/nic_choice.h"
#include "daemon/transport/rdma/device/sysfs_nics.h"
#include "ipc/layout.h"
#include "simm/version.h"

namespace simm::control {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kCommands =
    "status, sessions, regions, sockets, tenants, store_tenants, nics, stats, limits, config, log, "
    "trace, errors, events, nodes, slots, peers, daemon_stats";

bool is_about_the_cluster(std::string_view command) {
  return command == "nodes" || command == "slots" || command == "peers" ||
         command == "daemon_stats";
}

}  // namespace

AdminReports::AdminReports(Environment& environment, const AttachServer& server,
                           ClusterPresence* cluster, std::string role, std::uint64_t pool_bytes)
    : environment_(environment),
      server_(server),
      cluster_(cluster),
      role_(std::move(role)),
      pool_bytes_(pool_bytes),
      started_ns_(environment.clock.now_ns()) {}

void AdminReports::report(std::string_view command, std::string_view argument, AdminAnswer answer) {
  if (command == "status") return answer(status());
  if (command == "sessions") return answer(argument == "ended" ? ended_sessions() : sessions());
  if (command == "regions") return answer(regions());
  if (command == "sockets") return answer(sockets());
  if (command == "tenants") return answer(tenants());
  if (command == "store_tenants" && store_tenants_ != nullptr) {
    return answer(store_tenants_->json());
  }
  if (command == "nics") return answer(argument == "check" ? nic_checks() : nics());
  if (command == "config") return answer(config_text(environment_.config));
  if (command == "log") return answer(log_text(environment_.log, argument));
  if (command == "limits") {
    return answer(limits_text(environment_.counters, environment_.config));
  }
  if (command == "stats") return answer(stats_text(environment_.counters, argument));
  if (command == "errors") {
    return answer(errors_text(environment_.errors, environment_.clock.now_ns()));
  }
  if (command == "events") return answer(events_text(environment_.events, argument));
  if (command == "trace" && tracing_ != nullptr) {
    return tracing_->record(argument, std::move(answer));
  }
  if (is_about_the_cluster(command)) {
    return report_cluster(command, std::string(argument), std::move(answer));
  }
  answer(unknown_command(kCommands));
}

void AdminReports::report_cluster(std::string_view command, const std::string& target,
                                  AdminAnswer answer) {
  if (cluster_ == nullptr) {
    return answer(Error{Status::invalid_state,
                        "this daemon is in no cluster: cluster.manager is not configured"});
  }
  if (command == "nodes") return cluster_->ask(cluster::Topic::nodes, target, std::move(answer));
  if (command == "slots") return cluster_->ask(cluster::Topic::slots, "", std::move(answer));
  if (command == "peers") {
    if (target.empty()) return answer(cluster_->peers());
    return cluster_->ask(cluster::Topic::peers, target, std::move(answer));
  }
  cluster_->ask(cluster::Topic::stats, target, std::move(answer));
}

std::string AdminReports::status() const {
  const base::Config& config = environment_.config;
  ordered_json sockets = ordered_json::array();
  for (const base::SocketConfig& socket : config.sockets) {
    if (!server_.is_listening()) break;
    sockets.push_back({{"path", socket.path}, {"tenant", socket.tenant}});
  }
  ordered_json status = {
      {"version", SIMM_VERSION_STRING},
      {"layout_version", ipc::kLayoutVersion},
      {"layout_version_min", ipc::kLayoutVersionMin},
      {"cluster_protocol", cluster::kHelloVersionMax},
      {"cluster_protocol_min", cluster::kHelloVersionMin},
      {"role", role_},
      {"pid", ::getpid()},
      {"uptime_ms", (environment_.clock.now_ns() - started_ns_) / base::kNsPerMs},
      {"sessions", server_.sessions()},
      {"pool_bytes", pool_bytes_},
      {"pool",
       {{"memory", pool_memory_},
        {"contents", pool_is_kept_ ? "kept" : "fresh"},
        {"why_fresh", pool_why_not_},
        {"recovery_percent", recovery_ ? recovery_() : 100},
        {"recovery_ms", environment_.counters.value("pool.recovery_ns") / base::kNsPerMs}}},
      {"prefaulted_bytes", environment_.counters.value("pool.prefaulted_bytes")},
      {"threads",
       config.threading.mode == base::Threading::shared ? 1 : config.threading.data_agents},
      {"data_agents", config.threading.data_agents},
      {"sockets", sockets},
      {"counters_file", config.counters_file},
      {"metrics", metrics_address_.empty() ? "off" : metrics_address_}};
  if (cluster_ != nullptr) status["cluster"] = ordered_json::parse(cluster_->membership());
  return base::json_text(status);
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
  return base::json_text(all);
}

std::string AdminReports::ended_sessions() const {
  const base::TimeNs now_ns = environment_.clock.now_ns();
  ordered_json all = ordered_json::array();
  for (const EndedSession& session : server_.ended()) {
    all.push_back({{"session", session.session_id},
                   {"tenant", session.tenant},
                   {"client", session.client},
                   {"pid", session.pid},
                   {"uid", session.uid},
                   {"cause", session.cause},
                   {"poisoned", session::poison_reason_name(session.poison)},
                   {"ms_ago", (now_ns - session.ended_ns) / base::kNsPerMs}});
  }
  return base::json_text(all);
}

transport::NicTable AdminReports::read_nics() const {
  return transport::choose_nics(transport::read_nics(sysfs_root_), environment_.config.nics);
}

std::string AdminReports::nics() const {
  return nics_text(read_nics(), rails_ ? rails_() : std::vector<transport::RailProgress>());
}

std::string AdminReports::nic_checks() const {
  return nic_checks_text(check_nics(read_nics(),
                                    rails_ ? rails_() : std::vector<transport::RailProgress>(),
                                    nic_check_host(sysfs_root_)));
}

std::string AdminReports::sockets() const {
  ordered_json all = ordered_json::array();
  for (const ListenerView& listener : server_.listeners()) {
    all.push_back({{"path", listener.path},
                   {"tenant", listener.tenant.empty() ? "(by uid and gid)" : listener.tenant},
                   {"sessions", listener.sessions},
                   {"sessions_max", environment_.config.session.sessions_max},
                   {"in_handshake", listener.unauthenticated},
                   {"waiting", listener.waiting}});
  }
  return base::json_text(all);
}

std::string AdminReports::tenants() const {
  const AttachServices& services = server_.services();
  const std::vector<const Attachment*> attachments = server_.attachments();
  ordered_json all = ordered_json::array();
  for (const Tenant& tenant : services.tenants.tenants()) {
    TenantAccount& account = services.accounts.of(tenant);
    const auto is_its = [&tenant](const Attachment* attachment) {
      return attachment->tenant().id == tenant.id;
    };
    all.push_back({{"tenant", tenant.name},
                   {"sessions", std::count_if(attachments.begin(), attachments.end(), is_its)},
                   {"regions", account.pins().regions()},
                   {"mapped_bytes", account.pins().bytes()},
                   {"namespaces", account.name_spaces()},
                   {"quota_percent", tenant.quota_percent},
                   {"weight", tenant.weight},
                   {"in_flight_bytes_max", tenant.in_flight_bytes_max}});
  }
  return base::json_text(all);
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
  return base::json_text(all);
}

}  // namespace simm::control
