#include "daemon/node_daemon.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "daemon/base/random.h"
#include "daemon/base/real_clock.h"
#include "daemon/client_region_opener.h"
#include "daemon/control/admin_reports.h"
#include "daemon/control/admin_server.h"
#include "daemon/control/attach_server.h"
#include "daemon/control/control_bell.h"
#include "daemon/control/mailbox_data_plane.h"
#include "daemon/data_agents.h"
#include "daemon/memory/fault_guard.h"

namespace simm {
namespace {

// Session ids are not secret; they start somewhere so that those of two runs differ in a log.
constexpr std::uint64_t kSessionIdSpan = 1'000'000;

// How soon the copying helper of a client is there again after it was killed at a fence.
constexpr std::chrono::milliseconds kMaintenanceInterval{10};

std::uint64_t seed_of(const base::Config& config) {
  return config.hash_seed != 0 ? config.hash_seed : base::SystemRandom().next();
}

}  // namespace

// In the order in which they depend on each other; destroyed the other way round.
struct NodeDaemon::Parts {
  Parts(NodeOptions given, std::unique_ptr<base::CounterSet> counter_set)
      : options(std::move(given)),
        counters(std::move(counter_set)),
        errors(clock),
        log(clock, options.config.log.level),
        limits(*counters),
        hash_seed(seed_of(options.config)),
        tenants(options.config, base::KeyHasher(hash_seed)),
        registrar("simm-registrar", base::kRegistrarJobsMax),
        closer("simm-closer", base::kRegistrarJobsMax),
        environment{io, options.config, clock, *counters, limits, errors, log, registrar, closer},
        bell(io),
        signals(io, SIGTERM, SIGINT),
        watchdog(io),
        drain_timer(io),
        maintenance(io),
        accounts(tenants, options.config) {}
  ~Parts() {
    // No thread may run while what it works on goes: the registrar still frees regions.
    registrar.stop();
    closer.stop();
    if (data != nullptr) data->stop();
  }

  NodeOptions options;
  base::RealClock clock;
  std::unique_ptr<base::CounterSet> counters;
  base::ErrorLog errors;
  base::Log log;
  base::LimitCounters limits;
  const std::uint64_t hash_seed;
  control::TenantRules tenants;
  boost::asio::io_context io{1};
  control::JobThread registrar;
  control::JobThread closer;
  control::Environment environment;
  control::ControlBell bell;
  boost::asio::signal_set signals;
  boost::asio::steady_timer watchdog;
  boost::asio::steady_timer drain_timer;
  boost::asio::steady_timer maintenance;
  control::TenantAccounts accounts;
  std::unique_ptr<DataAgents> data;
  std::unique_ptr<control::MailboxDataPlane> plane;
  std::unique_ptr<control::RegionOpener> opener;
  std::unique_ptr<control::AttachServer> server;
  std::unique_ptr<control::AdminReports> reports;
  std::unique_ptr<control::AdminServer> admin;
  bool stopping = false;
};

NodeDaemon::NodeDaemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
NodeDaemon::~NodeDaemon() = default;

Expected<std::unique_ptr<NodeDaemon>> NodeDaemon::create(NodeOptions options) {
  auto counters = base::CounterSet::create_file(options.config.counters_file);
  if (!counters) return std::move(counters).error();
  auto parts = std::make_unique<Parts>(std::move(options), std::move(*counters));
  Parts& p = *parts;
  memory::FaultGuard::install();
  if (!p.options.helper.socket.valid()) {
    p.log.info("memory", "no memory of clients is adopted", {{"why", p.options.helper.why_not}});
  }

  auto data = DataAgents::create(
      {p.options.config, p.clock, *p.counters, p.log, p.bell, p.tenants, p.hash_seed});
  if (!data) return std::move(data).error();
  p.data = std::move(*data);
  p.plane =
      std::make_unique<control::MailboxDataPlane>(p.options.config, p.tenants, p.data->mail());
  p.opener = std::make_unique<ClientRegionOpener>(p.options.config, std::move(p.options.helper),
                                                  p.data->foreign_arena());
  const control::AttachServices services{p.environment, *p.plane, *p.opener, p.tenants, p.accounts};
  p.server = std::make_unique<control::AttachServer>(
      services, base::SystemRandom().below(kSessionIdSpan) * kSessionIdSpan + 1);
  p.plane->connect(*p.server);
  p.reports = std::make_unique<control::AdminReports>(p.environment, *p.server, p.options.role,
                                                      p.data->pool_bytes());
  p.admin = std::make_unique<control::AdminServer>(p.environment, *p.reports);

  if (!p.bell.start([&p] { p.plane->deliver(); })) {
    return system_error("eventfd of the control thread", errno);
  }
  Outcome done = p.data->start();
  if (done) p.registrar.start();
  if (done) p.closer.start();
  if (done) done = p.server->listen(p.options.inherited);
  if (done) done = p.admin->listen(p.options.config.admin_socket);
  if (!done) return std::move(done).error();
  for (const control::InheritedSocket& socket : p.options.inherited) {
    p.log.warning("control", "an inherited socket is not in the configuration and is closed",
                  {{"name", socket.name}, {"path", socket.path}});
  }
  p.options.inherited.clear();
  return std::unique_ptr<NodeDaemon>(new NodeDaemon(std::move(parts)));
}

void NodeDaemon::run() {
  Parts& p = *parts_;
  wait_for_signal();
  feed_watchdog();
  if (p.options.config.memory.foreign) maintain_regions();
  p.log.info("control", "ready",
             {{"role", p.options.role},
              {"socket", p.options.config.sockets.front().path},
              {"pool", base::format_bytes(p.data->pool_bytes())},
              {"data_agents", p.options.config.threading.data_agents}});
  p.options.service.ready("serving");
  p.io.run();
  p.data->stop();
  p.log.info("control", "stopped");
}

void NodeDaemon::wait_for_signal() {
  parts_->signals.async_wait([this](const boost::system::error_code& failed, int signal) {
    if (failed) return;
    begin_stop(signal == SIGTERM ? "SIGTERM" : "SIGINT");
    wait_for_signal();
  });
}

void NodeDaemon::feed_watchdog() {
  Parts& p = *parts_;
  if (!p.options.service.watchdog_interval()) return;
  p.options.service.watchdog();
  p.watchdog.expires_after(*p.options.service.watchdog_interval());
  p.watchdog.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) feed_watchdog();
  });
}

void NodeDaemon::maintain_regions() {
  Parts& p = *parts_;
  // A full queue means that the thread is busy: next time then.
  (void)p.registrar.submit([&p] { p.opener->maintain(); });
  p.maintenance.expires_after(kMaintenanceInterval);
  p.maintenance.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) maintain_regions();
  });
}

void NodeDaemon::begin_stop(const char* why) {
  Parts& p = *parts_;
  if (std::exchange(p.stopping, true)) return;
  p.log.info("control", "stopping", {{"why", why}, {"connections", p.server->sessions()}});
  p.options.service.stopping("draining");
  p.admin->stop();
  p.drain_timer.expires_after(std::chrono::milliseconds(p.options.config.drain_ms));
  p.drain_timer.async_wait([&p](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    p.log.warning("control", "drain_ms is over, work is left undone",
                  {{"connections", p.server->sessions()}});
    p.server->remove_listeners();
    std::_Exit(EXIT_SUCCESS);
  });
  p.server->drain([&p] { p.io.stop(); });
}

}  // namespace simm
