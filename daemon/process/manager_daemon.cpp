#include "daemon/process/manager_daemon.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "daemon/admin/admin_server.h"
#include "daemon/admin/manager_reports.h"
#include "daemon/admin/status_report.h"
#include "daemon/base/real_clock.h"
#include "daemon/cluster/copied_coordinator.h"
#include "daemon/cluster/file_coordinator.h"
#include "daemon/control/deadline.h"
#include "daemon/control/service_manager.h"
#include "daemon/control/watchdog_feeder.h"
#include "daemon/etcd/etcd_coordinator.h"
#include "daemon/metrics/manager_metrics.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/peers/cluster_settings.h"
#include "daemon/peers/manager_service.h"
#include "daemon/process/etcd_settings.h"

namespace simm {
namespace {

cluster::ManagerConfig manager_config(const base::Config& config) {
  cluster::ManagerConfig result;
  result.membership.member_timeout_ns = config.manager.member_timeout_ms * base::kNsPerMs;
  result.membership.rejoin_grace_ns = config.manager.rejoin_grace_ms * base::kNsPerMs;
  // A manager with a state file of its own has no standbys.
  if (config.manager.etcd.empty()) result.membership.redial_ns = cluster::kFindOnlyManagerNs;
  for (const base::OwnerConfig& owner : config.owners) {
    result.membership.owners.push_back(
        {owner.name, owner.pool_bytes_max, static_cast<std::uint16_t>(owner.shards_max)});
  }
  const auto keeps_twice = [](const base::NamespaceConfig& one) { return one.replicas > 1; };
  if (std::any_of(config.namespaces.begin(), config.namespaces.end(), keeps_twice)) {
    result.mirrors = cluster::Mirrors::apart;
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
        std::unique_ptr<cluster::FileCoordinator> keeper,
        std::unique_ptr<etcd::EtcdGateway> gateway)
      : config(std::move(given)),
        settings(std::move(of_cluster)),
        counters(std::move(counter_set)),
        file(std::move(keeper)),
        etcd(gateway == nullptr
                 ? nullptr
                 : std::make_unique<etcd::EtcdCoordinator>(std::move(gateway), clock,
                                                           settings.self.cluster, self_text())),
        log(clock, config.log.level, 2, base::Log::stderr_is_journal(), config.log.format),
        events(clock, log, *counters),
        errors(clock, &events),
        copied(etcd == nullptr ? nullptr
                               : std::make_unique<cluster::CopiedCoordinator>(
                                     *etcd, *file,
                                     [this](const Error& why) {
                                       errors.record("manager.state_file", why.status, why.context);
                                     })),
        limits(*counters),
        access{io,     clock,           random,        *counters, limits,
               errors, settings.secret, settings.self, events},
        service(access, manager_config(config), coordinator()),
        numbers(clock, service),
        metrics(io, clock, *counters, limits, numbers, "manager"),
        reports({access, service, metrics, config, log, [this] { return election(); }}),
        status_report(io, clock, reports),
        admin(io, limits, reports),
        signals(io, SIGTERM, SIGINT),
        watchdog(io, supervisor, [] { return true; }),
        again(io) {}

  [[nodiscard]] std::string self_text() const {
    return settings.self.name + " at " + config.manager.listen;
  }
  [[nodiscard]] cluster::Coordinator& coordinator() {
    return copied == nullptr ? static_cast<cluster::Coordinator&>(*file) : *copied;
  }
  [[nodiscard]] control::ElectionReport election() const;
  void note_trouble(const std::string& now);
  void follow_election();
  void lead();

  const base::Config config;
  const control::ClusterSettings settings;
  base::RealClock clock;
  base::SystemRandom random;
  std::unique_ptr<base::CounterSet> counters;
  std::unique_ptr<cluster::FileCoordinator> file;
  std::unique_ptr<etcd::EtcdCoordinator> etcd;  // null: the file alone
  base::Log log;
  base::EventLog events;
  base::ErrorLog errors;
  std::unique_ptr<cluster::CopiedCoordinator> copied;  // null: without etcd
  base::LimitCounters limits;
  boost::asio::io_context io{1};
  control::ClusterAccess access;
  control::ManagerService service;
  control::ManagerMetrics numbers;
  control::MetricsEndpoint metrics;
  control::ManagerReports reports;
  control::StatusReport status_report;
  control::AdminServer admin;
  boost::asio::signal_set signals;
  control::ServiceManager supervisor;
  control::WatchdogFeeder watchdog;
  control::Deadline again;
  std::string said;      // the last line about the election
  std::string unusable;  // why the state that is in etcd can not be used
  std::string trouble;   // of etcd, when it was last heard of
};

control::ElectionReport ManagerDaemon::Parts::election() const {
  if (etcd == nullptr) return {};
  const etcd::Leadership now = etcd->leadership();
  const base::TimeNs until_ns = etcd->led_until_ns();
  const base::TimeNs now_ns = clock.now_ns();
  return {true, now.leader, now.trouble.empty() ? unusable : now.trouble, now.term,
          until_ns > now_ns ? (until_ns - now_ns) / base::kNsPerMs : 0};
}

void ManagerDaemon::Parts::note_trouble(const std::string& now) {
  if (now == trouble) return;
  const bool begins = trouble.empty();
  trouble = now;
  if (trouble.empty()) return log.info("manager.etcd", "etcd answers again");
  const bool is_new = errors.record("manager.etcd", Status::unreachable, trouble);
  if (begins || is_new) log.warning("manager.etcd", trouble);
}

// Who leads is for etcd to say; this is what becomes of it here.
void ManagerDaemon::Parts::follow_election() {
  const etcd::Leadership now = etcd->leadership();
  note_trouble(now.trouble);
  if (now.leads) {
    if (!service.leads()) lead();
    return;
  }
  again.cancel();
  if (!now.leader.empty()) unusable.clear();  // another one can
  const bool has_led = service.leads();
  const std::string leader =
      now.leader.empty() ? "no manager leads just now" : now.leader + " leads";
  service.stand_by("this manager, " + settings.self.name + ", stands by: " + leader);
  const std::string line = leader + now.trouble;
  if (!has_led && std::exchange(said, line) == line) return;
  said = line;
  events.tell(base::EventKind::stands_by,
              {{"leader", leader}, {"has_led", has_led ? "yes" : "no"}, {"etcd", now.trouble}});
}

void ManagerDaemon::Parts::lead() {
  if (const Outcome started = service.lead(); !started) {
    unusable = started.error().context;
    errors.record("manager.etcd", started.error().status, unusable);
    service.stand_by("this manager, " + settings.self.name +
                     ", was elected, but can not use the state: " + unusable);
    const bool is_foreign =
        started.status() == Status::incompatible || started.status() == Status::corrupt;
    // Another manager, of a newer release, may be able to.
    if (is_foreign) return etcd->give_way();
    return again.after(base::kNsPerSecond, [this] { follow_election(); });
  }
  unusable.clear();
  said.clear();
  const cluster::SlotMapPtr& map = service.manager().map();
  events.tell(base::EventKind::leads,
              {{"epoch", map == nullptr ? std::uint64_t{0} : map->epoch()}});
}

ManagerDaemon::ManagerDaemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ManagerDaemon::~ManagerDaemon() = default;

Expected<std::unique_ptr<ManagerDaemon>> ManagerDaemon::create(base::Config config) {
  base::SystemRandom random;
  auto settings = control::ClusterSettings::make(config, cluster::ClusterRole::manager, 0, random);
  if (!settings) return std::move(settings).error();
  auto counters = base::CounterSet::create_file(config.counters_file);
  if (!counters) return std::move(counters).error();
  auto file = cluster::FileCoordinator::open(config.manager.state_file);
  if (!file) return Error{file.status(), "manager.state_file: " + file.error().context};
  std::unique_ptr<etcd::EtcdGateway> gateway;
  if (!config.manager.etcd.empty()) {
    auto of_etcd = etcd_settings(config);
    if (!of_etcd) return std::move(of_etcd).error();
    auto made = etcd::EtcdGateway::make(std::move(*of_etcd));
    if (!made) return std::move(made).error();
    gateway = std::move(*made);
  }
  auto parts = std::make_unique<Parts>(std::move(config), std::move(*settings),
                                       std::move(*counters), std::move(*file), std::move(gateway));
  Parts& p = *parts;
  p.service.report_with([&p] { return p.reports.own_row(); });
  Outcome done = p.etcd == nullptr ? p.service.lead() : Outcome(Done{});
  if (done) done = p.service.listen(p.config.manager.listen);
  if (done) done = p.admin.listen(p.config.admin_socket);
  if (done) done = p.status_report.serve(p.config, p.metrics);
  if (done) done = p.metrics.listen(p.config.metrics.listen, p.log);
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
                 {"state", p.etcd == nullptr ? p.config.manager.state_file : p.config.manager.etcd},
                 {"epoch", map == nullptr ? std::uint64_t{0} : map->epoch()}});
  if (p.etcd == nullptr) {
    p.supervisor.ready("managing at " + p.service.address().text());
  } else {
    p.supervisor.ready("one of several managers, at " + p.service.address().text());
    p.etcd->start([&p] { boost::asio::post(p.io, [&p] { p.follow_election(); }); });
  }
  p.io.run();
  p.again.cancel();
  if (p.etcd != nullptr) p.etcd->stop();  // another one leads at once
  p.reports.stop();
  p.admin.stop();
  p.metrics.stop();
  p.service.stop();
  p.log.info("control", "stopped");
}

}  // namespace simm
