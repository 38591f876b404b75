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

ManagerReports::ManagerReports(const ClusterAccess& access, const ManagerService& service,
                               const base::Config& config, base::Log& log)
    : access_(access),
      service_(service),
      config_(config),
      log_(log),
      started_ns_(access.clock.now_ns()) {}

void ManagerReports::report(std::string_view command, std::string_view argument,
                            AdminAnswer answer) {
  if (command == "status") return answer(status());
  if (command == "stats") return answer(stats_text(access_.counters, argument));
  if (command == "events") return answer(events_text(access_.events, argument));
  if (command == "errors") return answer(errors_text(access_.errors, access_.clock.now_ns()));
  if (command == "nodes") {
    return answer(service_.manager().report(cluster::Topic::nodes, std::string(argument)));
  }
  if (command == "slots") return answer(service_.manager().report(cluster::Topic::slots));
  if (command == "config") return answer(config_text(config_));
  if (command == "limits") return answer(limits_text(access_.counters, config_));
  if (command == "log") return answer(log_text(log_, argument));
  answer(
      unknown_command("status, stats, limits, config, log, errors, events, nodes, slots (of a "
                      "manager, which has no "
                      "clients and no objects)"));
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
      {"uptime_ms", (access_.clock.now_ns() - started_ns_) / base::kNsPerMs},
      {"cluster", access_.self.cluster},
      {"name", access_.self.name},
      {"address", service_.address().text()},
      {"secret", access_.secret.is_secret()},
      {"leads", service_.leads()},
      {"state_file", config_.manager.state_file},
      {"etcd", config_.manager.etcd},
      {"metrics", metrics_address_.empty() ? "off" : metrics_address_}};
  status["manager"] =
      nlohmann::ordered_json::parse(service_.manager().report(cluster::Topic::stats));
  return base::json_text(status);
}

}  // namespace simm::control
