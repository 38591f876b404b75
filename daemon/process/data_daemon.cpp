#include "daemon/process/data_daemon.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "daemon/admin/admin_reports.h"
#include "daemon/admin/admin_server.h"
#include "daemon/admin/status_report.h"
#include "daemon/agent/client_region_opener.h"
#include "daemon/agent/data_agents.h"
#include "daemon/agent/pool_counters.h"
#include "daemon/agent/pool_setup.h"
#include "daemon/agent/rdma_rails.h"
#include "daemon/attach/attach_server.h"
#include "daemon/attach/mailbox_session_control.h"
#include "daemon/base/byte_size.h"
#include "daemon/base/choice.h"
#include "daemon/base/host_memory.h"
#include "daemon/base/random.h"
#include "daemon/base/real_clock.h"
#include "daemon/control/control_bell.h"
#include "daemon/control/watchdog_feeder.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/metrics/event_watch.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/metrics/node_metrics.h"
#include "daemon/metrics/store_tenants.h"
#include "daemon/peers/cluster_presence.h"
#include "daemon/peers/cluster_settings.h"
#include "daemon/process/pool_log.h"
#include "daemon/traces/trace_exporter.h"
#include "daemon/transport/rdma/device/nic_choice.h"
#include "daemon/transport/rdma/device/sysfs_nics.h"
#include "ipc/peer_identity.h"

namespace simm {
namespace {

// Session ids are not secret; they start somewhere so that those of two runs differ in a log.
constexpr std::uint64_t kSessionIdSpan = 1'000'000;

// How soon the copying helper of a client is there again after it was killed at a fence.
constexpr std::chrono::milliseconds kMaintenanceInterval{10};

// How often the service manager hears of a recovery, and how long it then waits for the next news.
constexpr base::TimeNs kRecoveryNewsNs = base::kNsPerSecond;
constexpr std::chrono::seconds kRecoveryExtension{30};

std::string role_text(base::Role role) {
  return std::string(base::choice_name(base::kRoleNames, role));
}

// Nothing: it is in no cluster.
using MaybeSettings = std::optional<control::ClusterSettings>;

Expected<MaybeSettings> cluster_settings(const NodeOptions& options, base::Random& random) {
  const base::Config& config = options.config;
  const bool is_storage = options.role == base::Role::storage;
  if (config.cluster.manager.empty() || options.role == base::Role::all) return MaybeSettings();
  const base::ByteShare& pool = config.node.pool_bytes;
  const bool has_pool = pool.bytes > 0 || pool.percent > 0;
  auto settings = control::ClusterSettings::make(
      config, is_storage ? cluster::ClusterRole::storage : cluster::ClusterRole::node,
      static_cast<std::uint16_t>(has_pool ? config.threading.data_agents : 0), random);
  if (!settings) return std::move(settings).error();
  return MaybeSettings(std::move(*settings));
}

// Null: there is none.
using Pool = std::unique_ptr<store::PoolMemory>;

// Whose objects they are: epochs and slots mean something to one daemon of one cluster only.
std::string pool_owner(const MaybeSettings& settings) {
  if (!settings) return "a daemon alone";
  return cluster::full_name(
             {settings->self.incarnation, settings->self.role, settings->self.name}) +
         " of cluster " + settings->self.cluster;
}

// What is kept there says with which seed keys were hashed, and who this daemon is in its cluster:
// to the others it has been away for a while.
Expected<Pool> open_pool(NodeOptions& options, MaybeSettings& settings, base::Random& random) {
  const std::uint64_t seed = settings ? settings->hash_seed : options.config.hash_seed;
  std::uint64_t fresh_seed = seed;
  while (fresh_seed == 0) fresh_seed = random.next();
  // A pool of terabytes takes longer than the time-out of a unit; one step of it does not.
  const auto on_taken = [&service = options.service](std::uint64_t bytes) {
    service.extend_start(std::chrono::minutes(2),
                         "takes memory for the pool: " + base::format_bytes(bytes));
  };
  auto pool = make_pool({options.config, settings.has_value(), options.role != base::Role::storage,
                         options.service.keeps_files(store::kPoolFiles), pool_owner(settings), seed,
                         fresh_seed, on_taken},
                        take_pool_files(options.inherited));
  if (!pool || *pool == nullptr) return pool;
  store::PoolMemory& memory = **pool;
  cluster::Incarnation self;
  if (settings) {
    const store::PoolLife& last = memory.last_life();
    const cluster::Incarnation before{last.incarnation_high, last.incarnation_low};
    if (before.is_set()) settings->self.incarnation = before;
    self = settings->self.incarnation;
  }
  memory.begin_life(self.high, self.low);
  for (const store::PoolFile& file : memory.take_files()) {
    options.service.keep_file(file.name, file.fd.get());
  }
  return pool;
}

// What the configuration says of NICs and this host has not: without them bytes move all the same.
void log_nics(base::Log& log, const transport::NicTable& nics) {
  for (const std::string& problem : transport::nic_problems(nics)) log.warning("nics", problem);
  for (const transport::Nic& nic : nics.nics()) {
    if (nic.left_out.empty()) continue;
    log.info("nics", "a port is not used; name all that are in the list `nics`",
             {{"nic", nic.device}, {"port", nic.port}, {"why", nic.left_out}});
  }
}

std::uint64_t seed_of(const MaybeSettings& settings, const Pool& pool) {
  return pool != nullptr ? pool->hash_seed() : settings->hash_seed;
}

}  // namespace

// In the order in which they depend on each other; destroyed the other way round.
struct DataDaemon::Parts {
  Parts(NodeOptions given, std::unique_ptr<base::CounterSet> counter_set, MaybeSettings of_cluster,
        Pool pool_memory)
      : options(std::move(given)),
        settings(std::move(of_cluster)),
        pool(std::move(pool_memory)),
        counters(std::move(counter_set)),
        log(clock, options.config.log.level, 2, base::Log::stderr_is_journal(),
            options.config.log.format),
        events(clock, log, *counters),
        errors(clock, &events),
        limits(*counters),
        hash_seed(seed_of(settings, pool)),
        tenants(options.config, base::KeyHasher(hash_seed)),
        registrar("simm-registrar", base::kRegistrarJobsMax),
        adopter("simm-adopter", base::kRegistrarJobsMax),
        closers(tenants, "simm-closer"),
        sealers(tenants, "simm-sealer"),
        environment{io, options.config, clock, *counters, limits, errors, log, registrar, events},
        bell(io),
        signals(io, SIGTERM, SIGINT),
        watchdog(io, options.service, [this] { return data->have_all_turned(); }),
        recovery_news(io),
        gpu_numbers(*counters),
        drain_timer(io),
        maintenance(io),
        accounts(tenants, options.config),
        session_memory(io, clock,
                       control::SessionMemoryBudget::Bounds::of(
                           options.config, base::HostMemory::read().usable_bytes()),
                       *counters) {}
  ~Parts() {
    // No thread may run while what it works on goes: the registrar still frees regions.
    adopter.stop();
    registrar.stop();
    closers.stop();
    sealers.stop();
    if (data != nullptr) data->stop();
    if (rails != nullptr) rails->stop();
  }

  NodeOptions options;
  MaybeSettings settings;
  const Pool pool;
  base::SystemRandom random;
  base::RealClock clock;
  std::unique_ptr<base::CounterSet> counters;
  base::Log log;
  base::EventLog events;
  base::ErrorLog errors;
  base::LimitCounters limits;
  const std::uint64_t hash_seed;
  ipc::UniqueFd process;  // names this process to clients that devices write to
  control::TenantRules tenants;
  boost::asio::io_context io{1};
  control::JobThread registrar;
  control::JobThread adopter;
  control::Closers closers;
  control::Closers sealers;
  control::Environment environment;
  control::ControlBell bell;
  boost::asio::signal_set signals;
  control::WatchdogFeeder watchdog;
  control::Deadline recovery_news;
  memory::GpuNumbers gpu_numbers;
  boost::asio::steady_timer drain_timer;
  boost::asio::steady_timer maintenance;
  control::TenantAccounts accounts;
  control::SessionMemoryBudget session_memory;
  std::unique_ptr<RdmaRails> rails;                 // null: no RDMA ports
  std::unique_ptr<traces::TraceExporter> exporter;  // null: nobody is told; outlives the agents
  std::unique_ptr<DataAgents> data;
  std::unique_ptr<control::MailboxSessionControl> plane;
  std::unique_ptr<ClientRegionOpener> opener;
  std::unique_ptr<control::KeyFeed> key_feed;  // null: there is no pool
  std::unique_ptr<control::AttachServer> server;
  std::unique_ptr<control::ClusterPresence> presence;  // null: in no cluster
  std::unique_ptr<control::TraceRecorder> tracing;
  std::unique_ptr<control::StoreTenants> store_tenants;
  std::unique_ptr<control::HotReport> hot_keys;
  std::unique_ptr<control::NodeMetrics> numbers;
  std::unique_ptr<control::MetricsEndpoint> metrics;
  std::unique_ptr<control::EventWatch> event_watch;
  std::unique_ptr<control::AdminReports> reports;
  std::unique_ptr<control::StatusReport> status_report;
  std::unique_ptr<control::AdminServer> admin;
  bool stopping = false;
  bool expelled = false;
  bool failed = false;      // it can not go on, but its successor may
  bool is_ready = false;    // the service manager has been told
  std::string status_more;  // of the cluster, for people
  base::TimeNs recovery_began_ns = 0;
  bool has_map = false;
  int drains = 0;  // under way
};

namespace {

template <typename Parts>
control::TraceRecorder::Names trace_names(const Parts& p) {
  std::string self = role_text(p.options.role);
  if (p.settings) self += " " + p.settings->self.name;
  const auto tenant = [&p](std::uint64_t id) -> std::string {
    const control::Tenant* const known = p.tenants.find({id});
    return known == nullptr ? "unknown" : known->name;
  };
  const auto peer = [&p](std::uint32_t number) -> std::string {
    const base::PeerId id{number};
    if (id == base::kSelf) return "self";
    if (id == engine::kSharedReads) return "shared reads";
    return p.presence == nullptr ? "unknown" : p.presence->peer_name(id);
  };
  return {self, tenant, peer};
}

// What the reports of the admin socket tell of.
template <typename Parts>
control::AdminReports::Setup reports_setup(Parts& p) {
  control::AdminReports::Setup setup{p.environment, *p.server, role_text(p.options.role),
                                     p.data->pool_bytes()};
  setup.cluster = p.presence.get();
  setup.tracing = p.tracing.get();
  setup.key_feed = p.key_feed.get();
  setup.tenants = p.store_tenants.get();
  setup.hot_keys = p.hot_keys.get();
  setup.metrics = p.metrics.get();
  if (p.pool != nullptr) {
    setup.pool = {store::pool_kind_name(p.pool->kind()), p.pool->is_kept(), p.pool->why_fresh()};
  }
  setup.recovery_percent = [&p] { return p.data->recovery_percent(); };
  if (p.rails != nullptr) setup.rails = [&p] { return p.rails->progress(); };
  setup.gpus = [&p] { return p.opener->gpus(); };
  setup.resize_gpu_tiers = [&p](const control::TierOrder& order) {
    return p.opener->resize_gpu_tier(order.gpu, order.bytes);
  };
  return setup;
}

}  // namespace

DataDaemon::DataDaemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DataDaemon::~DataDaemon() = default;

Expected<std::unique_ptr<DataDaemon>> DataDaemon::create(NodeOptions options) {
  base::SystemRandom random;
  auto settings = cluster_settings(options, random);
  if (!settings) return std::move(settings).error();
  auto counters = base::CounterSet::create_file(options.config.counters_file);
  if (!counters) return std::move(counters).error();
  auto pool = open_pool(options, *settings, random);
  if (!pool) return std::move(pool).error();
  std::unique_ptr<DataDaemon> made(new DataDaemon(std::make_unique<Parts>(
      std::move(options), std::move(*counters), std::move(*settings), std::move(*pool))));
  Parts& p = *made->parts_;
  memory::FaultGuard::install();
  if (!p.options.helper.socket.valid() && p.options.role != base::Role::storage) {
    p.log.info("memory", "no memory of clients is adopted", {{"why", p.options.helper.why_not}});
  }

  // Alone whatever is configured of a cluster.
  if (!p.settings && !p.options.config.cluster.manager.empty()) {
    p.options.config.cluster.manager.clear();
    base::note_override(p.options.config, "cluster.manager", "\"\"", "role");
  }
  if (p.settings && p.options.config.memory.foreign) {
    // Its workers copy out of the pool alone, and pages of other daemons never lie there.
    p.options.config.memory.foreign = false;
    base::note_override(p.options.config, "memory.foreign", "false", "role");
    p.log.warning("memory", "memory.foreign is off, because this daemon is in a cluster");
  }
  if (p.pool != nullptr) log_pool(p.log, p.events, *p.pool);
  const transport::NicTable nics =
      transport::choose_nics(transport::read_nics(), p.options.config.nics);
  log_nics(p.log, nics);
  if (p.settings) {
    auto rails = RdmaRails::open(p.options.config, nics, {p.clock, p.errors, p.log, *p.counters});
    if (!rails) return std::move(rails).error();
    p.rails = std::move(*rails);
  }
  if (p.rails != nullptr) {
    p.settings->self.features |= cluster::kFeatureQueuePairs;
    if (p.pool != nullptr) p.rails->serve(p.pool->payload().bytes());
  }
  auto data = DataAgents::create(
      {p.options.config, p.clock, *p.counters, p.log, p.errors, p.bell, p.tenants, p.hash_seed,
       p.settings.has_value(), p.options.role != base::Role::storage, p.pool.get(), p.rails.get()});
  if (!data) return std::move(data).error();
  p.data = std::move(*data);
  p.plane =
      std::make_unique<control::MailboxSessionControl>(p.options.config, p.tenants, p.data->mail());
  p.opener = std::make_unique<ClientRegionOpener>(
      p.options.config, p.tenants, std::move(p.options.helper), std::move(p.options.gpu_keeper),
      p.data->foreign_arena(), p.rails ? &p.rails->regions() : nullptr, *p.counters);
  p.key_feed = control::KeyFeed::make(p.environment, p.random, p.tenants, p.data->key_events());
  if (p.rails != nullptr) p.process = ipc::own_pidfd();
  const control::ReachEnd reach{p.rails != nullptr, p.process.get(), p.data->death_mark()};
  control::AttachServices services{p.environment,    *p.plane,  *p.opener, p.tenants,
                                   p.accounts,       p.closers, p.sealers, p.adopter,
                                   p.session_memory, reach};
  services.key_followers = p.key_feed.get();
  p.server = std::make_unique<control::AttachServer>(
      services, p.random.below(kSessionIdSpan) * kSessionIdSpan + 1);
  p.plane->connect(*p.server);

  Outcome done = made->export_traces();
  if (done) done = made->join_cluster();
  if (done) done = p.data->start();
  if (done && p.rails != nullptr) done = p.rails->start([&p] { p.bell.wake_control(); });
  if (done) done = made->listen();
  if (!done) return std::move(done).error();
  return made;
}

// Before the agents run.
Outcome DataDaemon::export_traces() {
  Parts& p = *parts_;
  auto exporter = traces::TraceExporter::make(
      {p.io, p.clock, p.random, *p.counters, p.log, p.options.config, trace_names(p)});
  if (!exporter) return std::move(exporter).error();
  p.exporter = std::move(*exporter);
  if (p.exporter != nullptr) p.exporter->watch(p.data->tracing());
  return Done{};
}

Outcome DataDaemon::join_cluster() {
  Parts& p = *parts_;
  if (!p.settings) return Done{};
  auto presence = control::ClusterPresence::create(
      {p.environment, p.random, *p.settings, p.data->presence(), p.data->pool_bytes(),
       p.rails ? p.rails->devices() : std::vector<transport::RdmaDevice*>(),
       [&p](std::size_t rail) { return p.rails->pool_keys(rail); },
       [this](const std::string& reason) { give_up("expelled from the cluster: " + reason); },
       [this](const cluster::SlotMap& map) { return take_map(map); },
       [&p](const std::string& status) {
         p.status_more = "; cluster: " + status;
         if (p.is_ready) p.options.service.status("serving" + p.status_more);
       },
       [&p] { return p.data->recovers(); }, own_grace_ms(), !p.tenants.replicated().empty(),
       p.data->recovers() ? p.pool->last_life().epoch : cluster::RefillBook::kNoEarlierLife});
  if (!presence) return std::move(presence).error();
  p.presence = std::move(*presence);
  return Done{};
}

// How long the end of this process and the start of the next one take at most, so that a large pool
// does not lose its slots meanwhile: the kernel lets go of the memory before it closes connections,
// and nobody else can have it sooner. Measured at 22 to 54 ms for each GiB.
std::uint32_t DataDaemon::own_grace_ms() const {
  constexpr std::uint64_t kMsPerGiB = 100;
  if (!keeps_objects()) return 0;
  const std::uint64_t ms = (parts_->data->pool_bytes() >> 30) * kMsPerGiB;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(ms, cluster::kMemberGraceMsMax));
}

// It could not go on, and its successor must be somebody else, with none of its objects.
void DataDaemon::give_up(const std::string& why) {
  parts_->expelled = true;
  if (parts_->pool != nullptr) parts_->pool->discard();
  begin_stop(why);
}

// Epochs that begin anew, or that are of another lineage, say nothing about who owned what before:
// then no object here can be shown to be the latest one of its key.
bool DataDaemon::take_map(const cluster::SlotMap& map) {
  Parts& p = *parts_;
  if (p.pool == nullptr || !p.pool->outlives_the_process()) return true;
  const store::PoolLife& last = p.pool->last_life();
  const cluster::Lineage lineage{last.lineage_high, last.lineage_low};
  // The first one alone: what follows it the manager vouches for.
  const bool is_first = !std::exchange(p.has_map, true);
  const bool is_strange = is_first && map.is_of_another_life(lineage, last.epoch);
  if (!is_strange && map.epoch() >= last.epoch) {
    p.pool->note_map(map.epoch(), map.life().lineage.high, map.life().lineage.low);
    return true;
  }
  give_up("the cluster is at epoch " + std::to_string(map.epoch()) + " of lineage " +
          map.life().lineage.text() + ", and the pool was at " + std::to_string(last.epoch) +
          " of lineage " + lineage.text() + ": it starts anew, empty");
  return false;
}

Outcome DataDaemon::listen() {
  Parts& p = *parts_;
  p.tracing = std::make_unique<control::TraceRecorder>(p.io, p.clock, p.random, p.data->tracing(),
                                                       trace_names(p),
                                                       p.options.role == base::Role::storage);
  p.store_tenants = std::make_unique<control::StoreTenants>(p.data->tenants(), p.tenants);
  p.hot_keys = std::make_unique<control::HotReport>(p.data->hot_keys(), p.tenants,
                                                    p.settings ? p.settings->self.name : "self");
  p.numbers = std::make_unique<control::NodeMetrics>(*p.server, p.tenants, p.presence.get());
  p.numbers->show_tenants(*p.store_tenants);
  p.numbers->show_hot_keys(*p.hot_keys);
  p.numbers->show_recovery([&p] { return p.data->recovers(); });
  p.metrics = std::make_unique<control::MetricsEndpoint>(p.io, p.clock, *p.counters, p.limits,
                                                         *p.numbers, role_text(p.options.role));
  p.event_watch = std::make_unique<control::EventWatch>(p.io, p.clock, *p.counters, p.events);
  p.event_watch->start();
  p.reports = std::make_unique<control::AdminReports>(reports_setup(p));
  p.status_report = std::make_unique<control::StatusReport>(p.io, p.clock, *p.reports);
  p.admin = std::make_unique<control::AdminServer>(p.io, p.limits, *p.reports);
  const bool is_rung = p.bell.start([&p] {
    p.plane->deliver();
    if (p.presence != nullptr) p.presence->deliver();
  });
  if (!is_rung) return system_error("eventfd of the control thread", errno);
  p.registrar.start(p.tenants.are_several() ? p.tenants.ids() : std::vector<std::uint64_t>());
  p.adopter.start();
  p.closers.start();
  p.sealers.start();
  Outcome done = p.data->recovers() ? Outcome(Done{}) : listen_for_clients();
  if (done) done = p.admin->listen(p.options.config.admin_socket);
  if (done) done = p.status_report->serve(p.options.config, *p.metrics);
  if (done) done = p.metrics->listen(p.options.config.metrics.listen, p.log);
  return done;
}

Outcome DataDaemon::listen_for_clients() {
  Parts& p = *parts_;
  if (p.options.role != base::Role::storage) {
    Outcome listening = p.server->listen(p.options.inherited);
    if (!listening) return listening;
  }
  for (const control::InheritedSocket& socket : p.options.inherited) {
    p.log.warning("control", "an inherited socket is not in the configuration and is closed",
                  {{"name", socket.name}, {"path", socket.path}});
  }
  p.options.inherited.clear();
  return Done{};
}

bool DataDaemon::run() {
  Parts& p = *parts_;
  wait_for_signal();
  p.watchdog.start();
  if (p.options.config.memory.foreign || p.options.config.gpu.enabled) maintain_regions();
  if (p.data->recovers()) {
    begin_recovery();
  } else {
    say_ready();
  }
  if (p.presence != nullptr) p.presence->start();
  if (p.exporter != nullptr) p.exporter->start();
  p.io.run();
  p.data->stop();
  if (p.exporter != nullptr) p.exporter->stop();
  if (p.pool != nullptr) p.pool->end_life();
  p.log.info("control", "stopped");
  return !p.expelled && !p.failed;
}

// Its cluster hears of this daemon all the while, so that a pool may be of any size; clients wait
// until all objects are there.
void DataDaemon::begin_recovery() {
  Parts& p = *parts_;
  p.recovery_began_ns = p.clock.now_ns();
  p.data->begin_recovery([this, &p] { boost::asio::post(p.io, [this] { end_recovery(); }); });
  p.recovery_news.after(kRecoveryNewsNs, [this] { tell_recovery(); });
}

void DataDaemon::tell_recovery() {
  Parts& p = *parts_;
  p.options.service.extend_start(
      kRecoveryExtension,
      "recovering the pool: " + std::to_string(p.data->recovery_percent()) + " %" + p.status_more);
  p.recovery_news.after(kRecoveryNewsNs, [this] { tell_recovery(); });
}

void DataDaemon::end_recovery() {
  Parts& p = *parts_;
  p.recovery_news.cancel();
  if (p.stopping) return;
  const auto found = p.data->end_recovery();
  if (!found) return fail("node.pool_bytes: " + found.error().context);
  const base::TimeNs elapsed_ns = p.clock.now_ns() - p.recovery_began_ns;
  PoolCounters(*p.counters).recovery_ns.set(elapsed_ns);
  p.events.tell(base::EventKind::recovered, {{"objects", found->objects},
                                             {"bytes", base::format_bytes(found->bytes)},
                                             {"lost_entries", found->lost_entries},
                                             {"refused_tables", found->refused_tables},
                                             {"ms", elapsed_ns / base::kNsPerMs}});
  if (Outcome listening = listen_for_clients(); !listening) {
    return fail(listening.error().context);
  }
  say_ready();
}

// After the start: what a start that fails says, and its exit status.
void DataDaemon::fail(const std::string& why) {
  parts_->failed = true;
  parts_->log.error("control", why);
  begin_stop(why);
}

void DataDaemon::say_ready() {
  Parts& p = *parts_;
  log_ready();
  p.options.service.ready("serving" + p.status_more);
  p.is_ready = true;
}

void DataDaemon::log_ready() {
  Parts& p = *parts_;
  const bool has_clients = p.options.role != base::Role::storage;
  for (const std::string& warning : p.options.config.warnings) p.log.warning("config", warning);
  p.events.tell(base::EventKind::ready,
                {{"role", role_text(p.options.role)},
                 {"socket", has_clients ? p.options.config.sockets.front().path : "none"},
                 {"pool", base::format_bytes(p.data->pool_bytes())},
                 {"data_agents", p.options.config.threading.data_agents}});
}

void DataDaemon::wait_for_signal() {
  parts_->signals.async_wait([this](const boost::system::error_code& failed, int signal) {
    if (failed) return;
    begin_stop(signal == SIGTERM ? "SIGTERM" : "SIGINT");
    wait_for_signal();
  });
}

void DataDaemon::maintain_regions() {
  Parts& p = *parts_;
  // A full queue means that the thread is busy: next time then.
  (void)p.adopter.submit([&p] { p.opener->maintain(); });
  p.gpu_numbers.show(p.opener->gpus());
  p.maintenance.expires_after(kMaintenanceInterval);
  p.maintenance.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) maintain_regions();
  });
}

void DataDaemon::begin_stop(const std::string& why) {
  Parts& p = *parts_;
  if (std::exchange(p.stopping, true)) return;
  p.events.tell(base::EventKind::stopping, {{"why", why}, {"connections", p.server->sessions()}});
  p.options.service.stopping("draining");
  p.tracing->stop();
  p.numbers->begin_stop();
  p.admin->stop();
  p.recovery_news.cancel();
  p.drain_timer.expires_after(std::chrono::milliseconds(p.options.config.drain_ms));
  p.drain_timer.async_wait([&p](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    p.log.warning("control", "drain_ms is over, work is left undone",
                  {{"connections", p.server->sessions()}});
    p.server->remove_listeners();
    std::_Exit(p.expelled || p.failed ? EXIT_FAILURE : EXIT_SUCCESS);
  });
  // Who will be back with its objects keeps its slots, for as long as the manager waits.
  const bool leaves = p.presence != nullptr && (p.expelled || !keeps_objects());
  p.drains = leaves ? 2 : 1;
  p.server->drain([this] { on_drained(); });
  if (leaves) p.presence->drain([this] { on_drained(); });
}

bool DataDaemon::keeps_objects() const {
  return parts_->pool != nullptr && parts_->pool->outlives_the_process();
}

void DataDaemon::on_drained() {
  Parts& p = *parts_;
  if (--p.drains > 0) return;
  if (p.presence != nullptr) p.presence->stop();
  p.io.stop();
}

}  // namespace simm
