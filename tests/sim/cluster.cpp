#include "tests/sim/cluster.h"

#include <algorithm>
#include <utility>

namespace simm::sim {
namespace {

// A run that needs more than this is going in circles.
constexpr std::uint64_t kEventsMax = 3'000'000;
constexpr base::TimeNs kStormMaxNs = 60 * kSecond;
// How long it may take until there is a first map, and how long etcd leaves calls unanswered in it:
// where half of them are, an election and a first store may take any time.
constexpr base::TimeNs kAssembleMaxNs = 5 * kSecond;
constexpr base::TimeNs kDoubtfulAtFirstNs = 2 * kSecond;

}  // namespace

Cluster::Cluster(const Scenario& scenario, LogMode log_mode)
    : scenario_(scenario),
      log_(loop_, log_mode),
      dice_(scenario.seed, 2),
      delta_dice_(scenario.seed, 5),
      hand_over_dice_(scenario.seed, 15),
      pool_dice_(scenario.seed, 17),
      aim_dice_(scenario.seed, 18),
      network_(loop_, Dice(scenario.seed, 3), log_, report_),
      control_(loop_, Dice(scenario.seed, 4), network_.conditions),
      history_(loop_, report_, maps_),
      etcd_(loop_, Dice(scenario.seed, 6), report_),
      managers_(scenario.etcd.managers),
      servers_(scenario.servers),
      pools_(scenario.servers),
      holders_(scenario.servers),
      nodes_(scenario.nodes) {
  network_.conditions = scenario_.conditions;
  network_.tap = &history_;
  network_.sockets().send_buffer_bytes = scenario_.tcp.buffer_bytes;
  network_.sockets().receive_buffer_bytes = scenario_.tcp.buffer_bytes;
  network_.sockets().has_forger = scenario_.conditions.forge_per_mille > 0;
  network_.rdma().device_config = scenario_.rdma.device;
  etcd_.doubtful_per_mille = scenario_.etcd.doubtful_per_mille;
  network_.on_devices_gone = [this](Serial node) {
    for (const auto& client : clients_) client->on_devices_gone(node);
  };
  set_aims();
  control_.version_of = [this](Serial serial) { return version_of(serial); };
  control_.loses_delta = [this] {
    return storming_ && delta_dice_.percent(scenario_.lost_deltas_percent);
  };
  history_.lease_losses = [this] { return lease_losses(); };
  history_.moves = scenario_.moves;
  if (scenario_.has_immutable()) history_.immutable = name_space_id(kImmutableNameSpace);
  history_.replicated = scenario_.replicated;
  maps_.may_lose_slots = [this](Serial serial, bool replaced) {
    const cluster::MembershipConfig& rules = scenario_.manager.membership;
    // It was heard last up to a heartbeat, by a clock of half the speed, before its trouble began.
    const base::TimeNs silent_ns = rules.member_timeout_ns - 2 * scenario_.manager.heartbeat_ns;
    return troubles_.may_lose_slots(serial, replaced ? silent_ns : rules.rejoin_grace_ns);
  };
  disk_.on_written = etcd_.on_stored = [this](const cluster::StoredState& state) {
    maps_.on_stored(state);
    if (log_.on()) log_.line("map %s", maps_.describe_newest().c_str());
  };
  disk_.next_write = [this] {
    if (!storming_ || !dice_.percent(scenario_.disk_failure_percent)) return DiskOutcome::written;
    return dice_.percent(50) ? DiskOutcome::failed : DiskOutcome::written_late;
  };
  for (std::uint32_t client = 0; client < scenario_.clients; ++client) {
    clients_.push_back(std::make_unique<SimClient>(scenario_, client, client % scenario_.tenants,
                                                   loop_, Dice(scenario_.seed, 100 + client), log_,
                                                   report_, history_));
  }
  control_.set_places(managers_.size());
  for (std::size_t place = 0; place < managers_.size(); ++place) start_manager(place);
  for (std::uint32_t server = 0; server < scenario_.servers; ++server) start_server(server);
  for (std::uint32_t node = 0; node < scenario_.nodes; ++node) start_node(node);
}

Cluster::~Cluster() = default;

void Cluster::run() {
  const bool whole = assemble() && storm() && recovery() && calm() &&
                     live_with_a_move_that_ages() && live_with_a_damaged_pool() && sweep_all();
  if (!whole && log_.on())
    log_.line("violation of %s: %s", report_.promise().c_str(), report_.text().c_str());
}

// ---- life and death ----

void Cluster::each_server(const std::function<void(SimServer&)>& visit) const {
  for (const auto& server : servers_) {
    if (server != nullptr) visit(*server);
  }
  for (const auto& server : sleepers_) visit(*server);
}

void Cluster::each_storage(const std::function<void(SimStorage&)>& visit) const {
  each_server([&](SimServer& server) {
    for (const auto& shard : server.shards()) visit(*shard);
  });
}

SimServer* Cluster::find_server(Serial serial) const {
  SimServer* found = nullptr;
  each_server([&](SimServer& server) {
    if (server.serial() == serial) found = &server;
  });
  return found;
}

std::uint64_t Cluster::lease_losses() const {
  std::uint64_t losses = dead_lease_losses_;
  each_storage([&](SimStorage& storage) { losses += storage.lease_losses(); });
  return losses;
}

cluster::MemberConfig Cluster::member_config(cluster::ClusterRole role, std::uint32_t number) {
  cluster::MemberConfig config;
  const bool owner = role == cluster::ClusterRole::storage;
  config.identity = {{scenario_.seed, ++serials_}, role, std::to_string(number)};
  config.address = owner ? "10.0.0." + std::to_string(number) : "";
  config.port = owner ? 1 : 0;
  config.shards = owner ? scenario_.shards : std::uint16_t{0};
  config.weight_bytes = owner ? dice_.percent(80) ? 4 : dice_.between(1, 8) : 0;
  config.join_timeout_ns = 300 * kMs;
  return config;
}

std::uint16_t Cluster::version_of(Serial serial) const {
  // Of a row of its own: whoever draws the faults does not notice.
  Dice dice(scenario_.seed, 1'000'000 + serial);
  return dice.percent(scenario_.old_release_percent) ? cluster::kHelloVersionMin
                                                     : cluster::kHelloVersionMax;
}

void Cluster::start_manager(std::size_t place) {
  if (log_.on()) log_.line("manager %zu starts", place);
  const SimManager::Place at{control_, place};
  if (scenario_.etcd.is_used) {
    managers_[place] = std::make_unique<SimManager>(at, dice_, etcd_, ++manager_serials_, report_,
                                                    scenario_.manager);
  } else {
    managers_[place] = std::make_unique<SimManager>(at, dice_, disk_, report_, scenario_.manager);
  }
}

void Cluster::kill_manager(std::size_t place) {
  if (log_.on()) log_.line("manager %zu dies", place);
  managers_[place].reset();
}

std::size_t Cluster::leading_place() {
  for (std::size_t place = 0; place < managers_.size(); ++place) {
    SimManager* const manager = managers_[place].get();
    if (manager == nullptr || !manager->leads()) continue;
    if (manager->candidate() == nullptr || manager->candidate()->leads_in_etcd()) return place;
  }
  return 0;
}

bool Cluster::has_leader() {
  const SimManager* const manager = managers_[leading_place()].get();
  return manager != nullptr && manager->leads();
}

bool Cluster::take_pool(std::uint32_t server) {
  std::shared_ptr<KeptPool>& pool = pools_[server];
  if (pool == nullptr || !pool->is_frozen()) {
    const auto config = member_config(cluster::ClusterRole::storage, server + 1);
    pool = std::make_shared<KeptPool>(scenario_, config);
    return false;
  }
  if (pool_dice_.percent(scenario_.damaged_percent)) pool->damage(pool_dice_);
  pool->thaw();
  return true;
}

void Cluster::start_server(std::uint32_t server) {
  const bool is_kept = take_pool(server);
  const auto serial = static_cast<Serial>(pools_[server]->config().identity.incarnation.low);
  if (log_.on()) {
    log_.line("server %u of place %u starts%s", serial, server + 1, is_kept ? " again" : "");
  }
  const Serial former = std::exchange(holders_[server], serial);
  if (is_kept) {
    ++dead_lease_losses_;  // its objects are there, their leases are not
    troubles_.end(serial);
  } else {
    troubles_.give_up(former);
  }
  const base::TimeNs recovery_ns = is_kept ? pool_dice_.skewed(1 * kUs, 300 * kMs) : 0;
  servers_[server] = std::make_unique<SimServer>(
      scenario_, network_, control_, dice_, maps_, pools_[server], recovery_ns, [this, serial] {
        // Not inside the call.
        loop_.after(1, [this, serial] { expel_server(serial); });
      });
}

void Cluster::end_server(SimServer& server, bool silent) {
  if (log_.on()) log_.line("server %u dies", server.serial());
  if (server.paused()) troubles_.end(server.serial());
  troubles_.begin(server.serial());
  network_.stopped(server.serial(), false);
  // With its host its memory is gone.
  if (scenario_.keeps_pools && !silent) server.pool().freeze();
  for (const auto& shard : server.shards()) {
    shard->check_books(report_);
    dead_lease_losses_ += shard->lease_losses();
  }
  network_.server_crashed(server.serial(), silent);
  if (silent) server.member().die_silently();
}

void Cluster::kill_server(std::uint32_t server) {
  end_server(*servers_[server], dice_.percent(30));
  servers_[server].reset();
}

void Cluster::expel_server(Serial serial) {
  SimServer* expelled = find_server(serial);
  if (expelled == nullptr) return;
  if (log_.on()) log_.line("server %u is expelled", serial);
  end_server(*expelled, false);
  expelled->pool().discard();
  std::erase_if(sleepers_, [&](const auto& server) { return server.get() == expelled; });
  for (std::uint32_t server = 0; server < scenario_.servers; ++server) {
    if (servers_[server].get() != expelled) continue;
    // Its supervisor starts it again.
    servers_[server].reset();
    loop_.after(dice_.skewed(1 * kMs, 100 * kMs), [this, server] {
      if (servers_[server] == nullptr) start_server(server);
    });
  }
}

void Cluster::start_node(std::uint32_t node) {
  nodes_[node] = std::make_unique<SimNode>(scenario_, network_, control_, dice_, maps_, node,
                                           member_config(cluster::ClusterRole::node, node));
  SimNode& started = *nodes_[node];
  for (std::uint32_t client = node; client < clients_.size(); client += scenario_.nodes) {
    ClientLink& link = started.attach(clients_[client]->tenant(), clients_[client]->pages());
    clients_[client]->attached(link, started.process());
  }
}

void Cluster::kill_node(std::uint32_t node) {
  if (log_.on()) log_.line("node %u dies", node);
  for (std::uint32_t client = node; client < clients_.size(); client += scenario_.nodes) {
    clients_[client]->detached(nodes_[node]->member().serial(), scenario_.rdma.is_used);
  }
  nodes_[node].reset();
}

// ---- phases ----

bool Cluster::step(base::TimeNs for_ns) {
  loop_.run_until(loop_.now_ns() + for_ns);
  if (loop_.events() > kEventsMax) report_.violation("live", "the cluster goes in circles");
  return report_.clean();
}

// Everybody finds the manager, and there is a map.
bool Cluster::assemble() {
  const base::TimeNs end_ns = loop_.now_ns() + kAssembleMaxNs;
  const base::TimeNs answered_ns = loop_.now_ns() + kDoubtfulAtFirstNs;
  const auto apart = [&] {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->epoch() == 0; });
  };
  while (apart()) {
    if (loop_.now_ns() >= answered_ns) etcd_.doubtful_per_mille = 0;
    if (loop_.now_ns() >= end_ns) report_.violation("live", "there is no map after a while");
    if (!step(5 * kMs)) return false;
  }
  return true;
}

bool Cluster::storm() {
  storming_ = true;
  etcd_.doubtful_per_mille = scenario_.etcd.doubtful_per_mille;
  for (const auto& client : clients_) client->start();
  start_faults();
  const base::TimeNs end_ns = loop_.now_ns() + kStormMaxNs;
  const auto busy = [&] {
    return std::any_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return !client->done(); });
  };
  while (busy() && loop_.now_ns() < end_ns) {
    if (!step(20 * kMs)) return false;
    each_storage([&](SimStorage& storage) { storage.check_books(report_); });
  }
  return report_.clean();
}

bool Cluster::recovery() {
  if (log_.on()) log_.line("the storm is over");
  storming_ = false;
  doomed_node_.reset();
  network_.conditions = Conditions{};
  network_.heal_all();
  control_.heal_all();
  etcd_.doubtful_per_mille = 0;
  for (std::size_t place = 0; place < managers_.size(); ++place) {
    if (managers_[place] == nullptr) start_manager(place);
    managers_[place]->cut(false);
    managers_[place]->resume();
  }
  for (const auto& sleeper : sleepers_) end_server(*sleeper, false);
  sleepers_.clear();
  for (std::uint32_t server = 0; server < scenario_.servers; ++server) {
    if (servers_[server] != nullptr && servers_[server]->hands_over()) {
      servers_[server]->resume();
      servers_[server]->cancel_drain();
    }
    if (servers_[server] != nullptr && servers_[server]->member().member().draining()) {
      kill_server(server);
    }
    if (servers_[server] == nullptr) start_server(server);
    servers_[server]->resume();
  }
  for (std::uint32_t node = 0; node < scenario_.nodes; ++node) {
    if (nodes_[node] == nullptr) start_node(node);
    nodes_[node]->resume();
  }
  // Longer than any timeout, and than it takes to notice a silent death.
  if (!step(6 * kSecond)) return false;
  for (const auto& client : clients_) {
    if (!client->idle()) report_.violation("live", "a client still waits");
    client->check_pages();
  }
  for (const auto& node : nodes_) node->check_idle(report_);
  if (!has_leader()) report_.violation("P8", "no manager leads after the storm");
  check_unity();
  check_versions();
  return report_.clean();
}

// P8: nobody had to be told.
void Cluster::check_unity() {
  const base::Epoch epoch = maps_.newest();
  for (const auto& server : servers_) {
    const bool owns = !server->member().member().owns_nothing();
    if (!server->uses(epoch) || !owns) {
      report_.violation("P8", "server %u is not back: map %llu, the newest is %llu",
                        server->serial(),
                        static_cast<unsigned long long>(server->member().member().epoch()),
                        static_cast<unsigned long long>(epoch));
    }
  }
  for (const auto& node : nodes_) {
    if (node->epoch() == epoch) continue;
    report_.violation("P8", "a node has map %llu, the newest is %llu",
                      static_cast<unsigned long long>(node->epoch()),
                      static_cast<unsigned long long>(epoch));
  }
}

// P8: everybody has been told what all speak.
void Cluster::check_versions() {
  std::uint16_t common = cluster::kHelloVersionMax;
  std::vector<const SimMember*> members;
  for (const auto& server : servers_) members.push_back(&server->member());
  for (const auto& node : nodes_) members.push_back(&node->member());
  for (const SimMember* member : members) common = std::min(common, version_of(member->serial()));
  for (const SimMember* member : members) {
    const std::uint16_t told = member->member().cluster_version();
    if (told == common) continue;
    report_.violation("P8", "server or node %u takes the cluster's version for %u, it is %u",
                      member->serial(), told, common);
  }
}

bool Cluster::sweep(SimClient& client, ipc::Opcode opcode, std::uint32_t name_space, SweptPut put) {
  client.sweep(opcode, name_space, put);
  const base::TimeNs end_ns = loop_.now_ns() + 3 * kSecond;
  while (!client.idle() && loop_.now_ns() < end_ns) {
    if (!step(5 * kMs)) return false;
  }
  if (!client.idle()) report_.violation("live", "a client still waits after the storm");
  return report_.clean();
}

void Cluster::check_quota(const SimClient& client, std::uint64_t bytes) {
  for (const store::TenantQuota& quota : scenario_.store.quotas) {
    const std::uint64_t all = quota.bytes * scenario_.servers * scenario_.shards;
    if (quota.tenant == client.tenant() && bytes > all) {
      report_.violation("P6", "tenant %llu holds %llu bytes, its quotas are %llu together",
                        static_cast<unsigned long long>(quota.tenant.value),
                        static_cast<unsigned long long>(bytes),
                        static_cast<unsigned long long>(all));
    }
  }
}

bool Cluster::sweep_all() {
  for (std::uint32_t tenant = 0; tenant < std::min(scenario_.tenants, scenario_.clients);
       ++tenant) {
    SimClient& client = *clients_[tenant];
    std::uint64_t held_bytes = 0;
    for (std::uint32_t name_space = 0; name_space < kNameSpaces; ++name_space) {
      if (!sweep(client, ipc::Opcode::exists, name_space)) return false;
      held_bytes += client.sweep_bytes();
    }
    check_quota(client, held_bytes);
    for (std::uint32_t name_space = 0; name_space < kNameSpaces; ++name_space) {
      if (!sweep(client, ipc::Opcode::remove, name_space)) return false;
      if (!sweep(client, ipc::Opcode::get, name_space)) return false;
      if (client.sweep_ok() > 0) report_.violation("P4", "an object is there after its remove");
    }
  }
  if (!step(100 * kMs)) return false;
  // Everything has been removed, or was dropped with its slot.
  each_storage([&](SimStorage& storage) { storage.check_idle(report_); });
  for (std::uint32_t tenant = 0; tenant < std::min(scenario_.tenants, scenario_.clients);
       ++tenant) {
    SimClient& client = *clients_[tenant];
    for (const ipc::Opcode opcode :
         {ipc::Opcode::put, ipc::Opcode::get, ipc::Opcode::exists, ipc::Opcode::remove}) {
      if (!sweep(client, opcode, 0)) return false;
      if (client.sweep_ok() != 1) {
        report_.violation("live", "opcode %u does not work after the storm",
                          static_cast<unsigned>(opcode));
      }
    }
  }
  return report_.clean();
}

}  // namespace simm::sim
