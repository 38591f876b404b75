#include "daemon/admin/manager_reports.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/admin/admin_texts.h"
#include "daemon/admin/events_text.h"
#include "daemon/base/json_text.h"
#include "daemon/cluster/hello/hello.h"
#include "daemon/control/stats_text.h"
#include "ipc/layout.h"
#include "simm/version.h"

namespace simm::control {

ManagerReports::ManagerReports(const Setup& setup)
    : setup_(setup),
      started_ns_(setup.access.clock.now_ns()),
      survey_(setup.access),
      totals_(setup.access.counters) {}

void ManagerReports::report(base::AdminCommand command, std::string_view argument,
                            AdminAnswer answer) {
  using base::AdminCommand;
  const ClusterAccess& access = setup_.access;
  const cluster::Manager& manager = setup_.service.manager();
  switch (command) {
    case AdminCommand::status:
      return answer(status());
    case AdminCommand::stats:
      return answer(stats_text(access.counters, argument));
    case AdminCommand::totals:
      return answer(totals_.text());
    case AdminCommand::limits:
      return answer(limits_text(access.counters, setup_.config));
    case AdminCommand::config:
      return answer(config_text(setup_.config));
    case AdminCommand::errors:
      return answer(errors_text(access.errors, access.clock.now_ns()));
    case AdminCommand::events:
      return answer(events_text(access.events, argument));
    case AdminCommand::log:
      return answer(log_text(setup_.log, argument));
    case AdminCommand::nodes:
      return answer(manager.report(cluster::Topic::nodes, std::string(argument)));
    case AdminCommand::slots:
      return answer(manager.report(cluster::Topic::slots));
    case AdminCommand::managers: {
      const std::string& listed = setup_.config.cluster.manager;
      return survey_.ask(listed.empty() ? setup_.service.address().text() : listed,
                         std::move(answer));
    }
    default:
      return answer(Error{Status::invalid_argument, "a manager has nothing to tell here"});
  }
}

// A manager has no sockets of tenants.
Expected<std::string> ManagerReports::report_without_names(base::AdminCommand command,
                                                           std::string_view argument) {
  if (command == base::AdminCommand::status) return status();
  if (command == base::AdminCommand::events) {
    return events_text(setup_.access.events, argument, EventNames::left_out);
  }
  return no_answer_without_names();
}

std::string ManagerReports::own_row() const {
  const cluster::Manager& manager = setup_.service.manager();
  const cluster::SlotMapPtr& map = manager.map();
  const ElectionReport election = setup_.election();
  const bool leads = setup_.service.leads();
  nlohmann::ordered_json row;
  row["state"] = leads ? "leads" : "stands by";
  if (leads) {
    row["epoch"] = map == nullptr ? base::Epoch{0} : map->epoch();
    row["daemons"] = manager.membership().members().size();
    row["owners"] = map == nullptr ? 0 : map->members().size();
    row["lineage"] = manager.lineage().is_set() ? manager.lineage().text() : "unknown";
  }
  row["kept_in"] = election.is_held ? "etcd" : "file";
  if (election.is_held) {
    row["term"] = election.term;
    if (leads) row["lease_ms"] = election.lease_ms;
  }
  if (!leads && !election.leader.empty()) row["leader"] = election.leader;
  row["trouble"] = election.trouble.empty() ? manager.store_error() : election.trouble;
  return base::json_text(row);
}

std::string ManagerReports::status() const {
  nlohmann::ordered_json status = {
      {"version", SIMM_VERSION_STRING},
      {"layout_version", ipc::kLayoutVersion},
      {"layout_version_min", ipc::kLayoutVersionMin},
      {"cluster_protocol", cluster::kHelloVersionMax},
      {"cluster_protocol_min", cluster::kHelloVersionMin},
      {"role", "manager"},
      {"pid", ::getpid()},
      {"uptime_ms", (setup_.access.clock.now_ns() - started_ns_) / base::kNsPerMs},
      {"cluster", setup_.access.self.cluster},
      {"name", setup_.access.self.name},
      {"address", setup_.service.address().text()},
      {"secret", setup_.access.secret.is_secret()},
      {"leads", setup_.service.leads()},
      {"state_file", setup_.config.manager.state_file},
      {"etcd", setup_.config.manager.etcd},
      {"metrics", metrics_text(&setup_.metrics)}};
  status["manager"] = setup_.service.manager().numbers();
  return base::json_text(status);
}

}  // namespace simm::control
