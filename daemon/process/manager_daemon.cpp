#include "daemon/process/manager_daemon.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "daemon/admin/admin_server.h"
#include "daemon/admin/manager_reports.h"
#include "daemon/base/real_clock.h"
#include "daemon/cluster/file_coordinator.h"
#include "daemon/control/service_manager.h"
#include "daemon/control/watchdog_feeder.h"
#include "daemon/metrics/manager_metrics.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/peers/cluster_settings.h"
#include "daemon/peers/manager_service.h"

namespace simm {
namespace {

cluster::ManagerConfig manager_config(const base::Config& config) {
  cluster::ManagerConfig result;
  result.membership.member_timeout_ns = config.manager.member_timeout_ms * base::kNsPerMs;
  result.membership.rejoin_grace_ns = config.manager.rejoin_grace_ms * base::kNsPerMs;
  for (const base::OwnerConfig& owner : config.owners) {
    result.membership.owners.push_back(
        {owner.name, owner.pool_bytes_max, static_cast<std::uint16_t>(owner.shards_max)});
  }
  // Several heartbeats may be late before somebody counts as away.
  result.heartbeat_ns = std::min(result.heartbeat_ns, result.membership.member_timeout_ns / 8);
  return result;
}

}  // namespace

// In the order in which they depend on each other; destroyed the other way round.
struct ManagerDaemon::Parts {
  Parts(base::Config given, control::ClusterSettings of_cluster,
        std::unique_ptr<base::CounterSet> counter_set,
        std::unique_ptr<cluster::FileCoordinator> keeper)
      : config(std::move(given)),
        settings(std::move(of_cluster)),
        counters(std::move(counter_set)),
        coordinator(std::move(keeper)),
        log(clock, config.log.level, 2, base::Log::stderr_is_journal(), config.log.format),
        events(clock, log, *counters),
        errors(clock, &events),
        limits(*counters),
        access{io,     clock,           random,        *counters, limits,
               errors, settings.secret, settings.self, events},
        service(access, manager_config(config), *coordinator),
        numbers(clock, service),
        metrics(io, clock, *counters, limits, numbers, "manager"),
        reports(access, service, config, log),
        admin(io, limits, reports),
        signals(io, SIGTERM, SIGINT),
        watchdog(io, supervisor, [] { return true; }) {}

  const base::Config config;
  const control::ClusterSettings settings;
  base::RealClock clock;
  base::SystemRandom random;
  std::unique_ptr<base::CounterSet> counters;
  std::unique_ptr<cluster::FileCoordinator> coordinator;
  base::Log log;
  base::EventLog events;
  base::ErrorLog errors;
  base::LimitCounters limits;
  boost::asio::io_context io{1};
  control::ClusterAccess access;
  control::ManagerService service;
  control::ManagerMetrics numbers;
  control::MetricsEndpoint metrics;
  control::ManagerReports reports;
  control::AdminServer admin;
  boost::asio::signal_set signals;
  control::ServiceManager supervisor;
  control::WatchdogFeeder watchdog;
};

ManagerDaemon::ManagerDaemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ManagerDaemon::~ManagerDaemon() = default;

Expected<std::unique_ptr<ManagerDaemon>> ManagerDaemon::create(base::Config config) {
  base::SystemRandom random;
  auto settings = control::ClusterSettings::make(config, cluster::ClusterRole::manager, 0, random);
  if (!settings) return std::move(settings).error();
  auto counters = base::CounterSet::create_file(config.counters_file);
  if (!counters) return std::move(counters).error();
  auto coordinator = cluster::FileCoordinator::open(config.manager.state_file);
  if (!coordinator) {
    return Error{coordinator.status(), "manager.state_file: " + coordinator.error().context};
  }
  auto parts = std::make_unique<Parts>(std::move(config), std::move(*settings),
                                       std::move(*counters), std::move(*coordinator));
  Parts& p = *parts;
  Outcome done = p.service.start(p.config.manager.listen);
  if (done) done = p.admin.listen(p.config.admin_socket);
  if (done) done = p.metrics.listen(p.config.metrics.listen, p.log);
  p.reports.show_metrics_at(p.metrics.address());
  if (!done) return std::move(done).error();
  return std::unique_ptr<ManagerDaemon>(new ManagerDaemon(std::move(parts)));
}

void ManagerDaemon::run() {
  Parts& p = *parts_;
  if (!p.settings.secret.is_secret()) {
    p.log.warning("cluster",
                  "there is no secret (cluster.secret_file): anybody on this host may "
                  "join the cluster");
  }
  p.signals.async_wait([&p](const boost::system::error_code& failed, int signal) {
    if (failed) return;
    p.events.tell(base::EventKind::stopping, {{"why", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
    p.supervisor.stopping("stopping");
    p.io.stop();
  });
  p.watchdog.start();
  const cluster::SlotMapPtr& map = p.service.manager().map();
  for (const std::string& warning : p.config.warnings) p.log.warning("config", warning);
  p.events.tell(base::EventKind::ready,
                {{"role", "manager"},
                 {"address", p.service.address().text()},
                 {"state", p.config.manager.state_file},
                 {"epoch", map == nullptr ? std::uint64_t{0} : map->epoch()}});
  p.supervisor.ready("managing at " + p.service.address().text());
  p.io.run();
  p.admin.stop();
  p.metrics.stop();
  p.service.stop();
  p.log.info("control", "stopped");
}

}  // namespace simm
