#include "daemon/admin/admin_reports.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "daemon/admin/admin_texts.h"
#include "daemon/admin/events_text.h"
#include "daemon/admin/gpus_text.h"
#include "daemon/admin/nic_checks.h"
#include "daemon/admin/nics_text.h"
#include "daemon/base/json_text.h"
#include "daemon/cluster/hello/hello.h"
#include "daemon/control/stats_text.h"
#include "daemon/peers/drain_question.h"
#include "daemon/session/session_counters.h"
#include "daemon/session/tenant_traffic.h"
#include "daemon/transport/rdma/device/nic_choice.h"
#include "daemon/transport/rdma/device/sysfs_nics.h"
#include "ipc/layout.h"
#include "simm/version.h"

namespace simm::control {
namespace {

using nlohmann::ordered_json;

Error no_cluster() {
  return {Status::invalid_state, "this daemon is in no cluster: cluster.manager is not configured"};
}

}  // namespace

AdminReports::AdminReports(Setup setup)
    : setup_(std::move(setup)),
      started_ns_(setup_.environment.clock.now_ns()),
      totals_(setup_.environment.counters) {}

void AdminReports::report(base::AdminCommand command, std::string_view argument,
                          AdminAnswer answer) {
  using base::AdminCommand;
  const Environment& here = setup_.environment;
  const std::string target(argument);
  switch (command) {
    case AdminCommand::status:
      return answer(status(Sockets::shown));
    case AdminCommand::sessions:
      return answer(argument == "ended" ? ended_sessions() : sessions());
    case AdminCommand::regions:
      return answer(regions());
    case AdminCommand::sockets:
      return answer(sockets());
    case AdminCommand::tenants:
      return answer(tenants());
    case AdminCommand::store_tenants:
      return answer(setup_.tenants == nullptr ? "[]" : setup_.tenants->json());
    case AdminCommand::hot:
      return answer(hot(HotReport::Names::shown));
    case AdminCommand::nics:
      return answer(argument == "check" ? nic_checks() : nics());
    case AdminCommand::gpus:
      return gpus(argument, answer);
    case AdminCommand::stats:
      return answer(stats_text(here.counters, argument));
    case AdminCommand::totals:
      return answer(totals_.text());
    case AdminCommand::daemon_stats:
      return ask_manager(cluster::Topic::stats, target, std::move(answer));
    case AdminCommand::limits:
      return answer(limits_text(here.counters, here.config));
    case AdminCommand::config:
      return answer(config_text(here.config));
    case AdminCommand::errors:
      return answer(errors_text(here.errors, here.clock.now_ns()));
    case AdminCommand::events:
      return answer(events_text(here.events, argument));
    case AdminCommand::key_events:
      if (setup_.key_feed != nullptr) return answer(setup_.key_feed->answer(argument));
      return answer(Error{Status::invalid_state, "this daemon has no pool: no key is stored here"});
    case AdminCommand::log:
      return answer(log_text(here.log, argument));
    case AdminCommand::nodes:
      return ask_manager(cluster::Topic::nodes, target, std::move(answer));
    case AdminCommand::slots:
      return ask_manager(cluster::Topic::slots, "", std::move(answer));
    case AdminCommand::peers:
      if (target.empty() && setup_.cluster != nullptr) return answer(setup_.cluster->peers());
      return ask_manager(cluster::Topic::peers, target, std::move(answer));
    case AdminCommand::managers:
      if (setup_.cluster != nullptr) return setup_.cluster->ask_managers(std::move(answer));
      return answer(no_cluster());
    case AdminCommand::moves:
      if (setup_.cluster == nullptr) return answer(no_cluster());
      if (target.empty()) return answer(setup_.cluster->moves());
      return ask_manager(cluster::Topic::moves, target, std::move(answer));
    case AdminCommand::drain:
      return drain(argument, std::move(answer));
    case AdminCommand::trace:
      if (setup_.tracing != nullptr) return setup_.tracing->record(argument, std::move(answer));
      return answer(Error{Status::invalid_state, "nothing can be traced here"});
  }
}

Expected<std::string> AdminReports::report_without_names(base::AdminCommand command,
                                                         std::string_view argument) {
  if (command == base::AdminCommand::status) return status(Sockets::left_out);
  if (command == base::AdminCommand::events) {
    return events_text(setup_.environment.events, argument, EventNames::left_out);
  }
  if (command == base::AdminCommand::hot) return hot(HotReport::Names::left_out);
  return no_answer_without_names();
}

void AdminReports::gpus(std::string_view argument, const AdminAnswer& answer) {
  if (!argument.empty()) {
    const Expected<TierOrder> order = parse_tier_order(argument);
    if (!order) return answer(order.error());
    if (!setup_.resize_gpu_tiers(*order)) {
      return answer(
          Error{Status::invalid_argument,
                "gpus: this daemon has no such GPU, or gpu.enabled is false: simmctl gpus shows "
                "those that clients have memory on"});
    }
  }
  answer(gpus_text(setup_.gpus()));
}

std::string AdminReports::hot(HotReport::Names names) const {
  if (setup_.hot_keys == nullptr) return R"({"shards": [], "keys": []})";
  return setup_.hot_keys->json(names);
}

void AdminReports::drain(std::string_view argument, AdminAnswer answer) {
  if (setup_.cluster == nullptr) return answer(no_cluster());
  auto question = drain_question(argument);
  if (!question) return answer(std::move(question).error());
  setup_.cluster->ask(std::move(*question), std::move(answer));
}

void AdminReports::ask_manager(cluster::Topic topic, const std::string& target,
                               AdminAnswer answer) {
  if (setup_.cluster != nullptr) return setup_.cluster->ask(topic, target, std::move(answer));
  answer(no_cluster());
}

std::string AdminReports::status(Sockets shown) const {
  const base::Config& config = setup_.environment.config;
  ordered_json sockets = ordered_json::array();
  for (const base::SocketConfig& socket : config.sockets) {
    if (!setup_.server.is_listening() || shown == Sockets::left_out) break;
    sockets.push_back({{"path", socket.path}, {"tenant", socket.tenant}});
  }
  ordered_json status = {
      {"version", SIMM_VERSION_STRING},
      {"layout_version", ipc::kLayoutVersion},
      {"layout_version_min", ipc::kLayoutVersionMin},
      {"cluster_protocol", cluster::kHelloVersionMax},
      {"cluster_protocol_min", cluster::kHelloVersionMin},
      {"role", setup_.role},
      {"pid", ::getpid()},
      {"uptime_ms", (setup_.environment.clock.now_ns() - started_ns_) / base::kNsPerMs},
      {"sessions", setup_.server.sessions()},
      {"pool_bytes", setup_.pool_bytes},
      {"pool",
       {{"memory", setup_.pool.memory},
        {"contents", setup_.pool.is_kept ? "kept" : "fresh"},
        {"why_fresh", setup_.pool.why_fresh},
        {"recovery_percent", setup_.recovery_percent()},
        {"recovery_ms", setup_.environment.counters.value("pool.recovery_ns") / base::kNsPerMs}}},
      {"prefaulted_bytes", setup_.environment.counters.value("pool.prefaulted_bytes")},
      {"threads",
       config.threading.mode == base::Threading::shared ? 1 : config.threading.data_agents},
      {"data_agents", config.threading.data_agents},
      {"sockets", sockets},
      {"counters_file", config.counters_file},
      {"metrics", metrics_text(setup_.metrics)}};
  if (setup_.cluster != nullptr) status["cluster"] = setup_.cluster->membership();
  return base::json_text(status);
}

std::string AdminReports::sessions() const {
  ordered_json all = ordered_json::array();
  for (const Attachment* attachment : setup_.server.attachments()) {
    all.push_back({{"session", attachment->session_id()},
                   {"state", attachment->state_name()},
                   {"tenant", attachment->tenant().name},
                   {"client", attachment->client_name()},
                   {"pid", attachment->peer().pid()},
                   {"uid", attachment->peer().uid()},
                   {"socket", setup_.server.listener_path(attachment->listener())},
                   {"lanes", attachment->lanes()},
                   {"regions", attachment->regions().size()}});
  }
  return base::json_text(all);
}

std::string AdminReports::ended_sessions() const {
  const base::TimeNs now_ns = setup_.environment.clock.now_ns();
  ordered_json all = ordered_json::array();
  for (const EndedSession& session : setup_.server.ended()) {
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
  return transport::choose_nics(transport::read_nics(setup_.sysfs_root),
                                setup_.environment.config.nics);
}

std::string AdminReports::nics() const {
  return nics_text(read_nics(), setup_.rails());
}

std::string AdminReports::nic_checks() const {
  return nic_checks_text(
      check_nics(read_nics(), setup_.rails(), nic_check_host(setup_.sysfs_root)));
}

std::string AdminReports::sockets() const {
  ordered_json all = ordered_json::array();
  for (const ListenerView& listener : setup_.server.listeners()) {
    all.push_back({{"path", listener.path},
                   {"tenant", listener.tenant.empty() ? "(by uid and gid)" : listener.tenant},
                   {"sessions", listener.sessions},
                   {"sessions_max", setup_.environment.config.session.sessions_max},
                   {"in_handshake", listener.unauthenticated},
                   {"waiting", listener.waiting}});
  }
  return base::json_text(all);
}

std::string AdminReports::tenants() const {
  const AttachServices& services = setup_.server.services();
  const std::vector<const Attachment*> attachments = setup_.server.attachments();
  ordered_json all = ordered_json::array();
  for (const Tenant& tenant : services.tenants.tenants()) {
    TenantAccount& account = services.accounts.of(tenant);
    const auto is_its = [&tenant](const Attachment* attachment) {
      return attachment->tenant().id == tenant.id;
    };
    const session::TenantTrafficSum moved = account.traffic_sum();
    all.push_back(
        {{"tenant", tenant.name},
         {"sessions", std::count_if(attachments.begin(), attachments.end(), is_its)},
         {"regions", account.pins().regions()},
         {"mapped_bytes", account.pins().bytes()},
         {"namespaces", account.name_spaces()},
         {"quota_percent", tenant.quota_percent},
         {"weight", tenant.weight},
         {"in_flight_bytes_max", tenant.in_flight_bytes_max},
         {"bandwidth_max", tenant.bandwidth_max_bytes_per_s},
         {"got_bytes", moved.got_bytes},
         {"put_bytes", moved.put_bytes},
         {"held", std::accumulate(moved.held.begin(), moved.held.end(), std::uint64_t{0})},
         {"held_for_bandwidth",
          moved.held[static_cast<std::size_t>(session::HeldFor::bandwidth)]}});
  }
  return base::json_text(all);
}

std::string AdminReports::regions() const {
  ordered_json all = ordered_json::array();
  for (const Attachment* attachment : setup_.server.attachments()) {
    for (const auto& [id, region] : attachment->regions()) {
      all.push_back({{"session", attachment->session_id()},
                     {"region", id},
                     {"handle", region.handle},
                     {"kind", ipc::region_kind_name(region.kind)},
                     {"bytes", region.bytes},
                     {"gpu", region.gpu},
                     {"can_fault", region.can_fault},
                     {"name", region.name},
                     {"reason", region.reason}});
    }
  }
  return base::json_text(all);
}

}  // namespace simm::control
