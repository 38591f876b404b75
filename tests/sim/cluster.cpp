#include "tests/sim/cluster.h"

#include <algorithm>

namespace simm::sim {
namespace {

// A run that needs more than this is going in circles.
constexpr std::uint64_t kEventsMax = 3'000'000;
constexpr base::TimeNs kStormMaxNs = 60 * kSecond;

}  // namespace

Cluster::Cluster(const Scenario& scenario, LogMode log_mode)
    : scenario_(scenario),
      log_(loop_, log_mode),
      dice_(scenario.seed, 2),
      network_(loop_, Dice(scenario.seed, 3), log_, report_),
      history_(loop_, report_),
      servers_(scenario.servers),
      nodes_(scenario.nodes) {
  network_.conditions = scenario_.conditions;
  network_.tap = &history_;
  history_.lease_losses = [this] { return lease_losses(); };
  for (base::Epoch epoch = 1; epoch <= ClusterMap::last_epoch(scenario_.servers, scenario_.shards);
       ++epoch) {
    maps_.push_back(std::make_unique<ClusterMap>(epoch, scenario_.servers, scenario_.shards));
  }
  for (std::uint32_t client = 0; client < scenario_.clients; ++client) {
    clients_.push_back(std::make_unique<SimClient>(scenario_, client, client % scenario_.tenants,
                                                   loop_, Dice(scenario_.seed, 100 + client), log_,
                                                   report_, history_));
  }
  for (std::uint32_t server = 0; server < scenario_.servers; ++server) start_server(server);
  for (std::uint32_t node = 0; node < scenario_.nodes; ++node) start_node(node);
}

Cluster::~Cluster() = default;

void Cluster::run() {
  const bool whole = storm() && recovery() && sweep_all();
  if (!whole && log_.on())
    log_.line("violation of %s: %s", report_.promise().c_str(), report_.text().c_str());
}

// ---- life and death ----

void Cluster::each_storage(const std::function<void(SimStorage&)>& visit) const {
  for (const Server& server : servers_) {
    for (const auto& shard : server.shards) visit(*shard);
  }
}

std::uint64_t Cluster::lease_losses() const {
  std::uint64_t losses = dead_lease_losses_;
  each_storage([&](SimStorage& storage) { losses += storage.lease_losses(); });
  return losses;
}

void Cluster::start_server(std::uint32_t server) {
  for (std::uint16_t shard = 0; shard < scenario_.shards; ++shard) {
    servers_[server].shards.push_back(std::make_unique<SimStorage>(
        scenario_, network_, dice_, transport::Route{base::PeerId{server + 1}, shard},
        *maps_[epoch_ - 1]));
  }
}

void Cluster::kill_server(std::uint32_t server) {
  if (log_.on()) log_.line("server %u dies", server + 1);
  ++history_.disruptions;
  each_storage([&](SimStorage& storage) { storage.check_books(report_); });
  for (const auto& shard : servers_[server].shards) dead_lease_losses_ += shard->lease_losses();
  network_.server_crashed(server + 1, dice_.percent(30));
  servers_[server].shards.clear();
}

void Cluster::start_node(std::uint32_t node) {
  nodes_[node] =
      std::make_unique<SimNode>(scenario_, network_, dice_, node, *maps_[node_epoch_ - 1]);
  SimNode& started = *nodes_[node];
  for (std::uint32_t client = node; client < clients_.size(); client += scenario_.nodes) {
    ClientLink& link = started.attach(clients_[client]->tenant(), clients_[client]->pages());
    clients_[client]->attached(link, [&started] { started.process().wake(); });
  }
}

void Cluster::kill_node(std::uint32_t node) {
  if (log_.on()) log_.line("node %u dies", node);
  for (std::uint32_t client = node; client < clients_.size(); client += scenario_.nodes) {
    clients_[client]->detached();
  }
  nodes_[node].reset();
}

// ---- phases ----

bool Cluster::step(base::TimeNs for_ns) {
  loop_.run_until(loop_.now_ns() + for_ns);
  if (loop_.events() > kEventsMax) report_.violation("live", "the cluster goes in circles");
  return report_.clean();
}

bool Cluster::storm() {
  storming_ = true;
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
  network_.conditions = Conditions{};
  network_.heal_all();
  for (std::uint32_t server = 0; server < scenario_.servers; ++server) {
    if (servers_[server].shards.empty()) start_server(server);
    for (const auto& shard : servers_[server].shards) shard->process().resume();
  }
  for (std::uint32_t node = 0; node < scenario_.nodes; ++node) {
    if (nodes_[node] == nullptr) start_node(node);
  }
  // Longer than any timeout, and than it takes to notice a silent death.
  if (!step(6 * kSecond)) return false;
  for (const auto& client : clients_) {
    if (!client->idle()) report_.violation("live", "a client still waits");
    client->check_pages();
  }
  for (const auto& node : nodes_) node->check_idle(report_);
  return report_.clean();
}

bool Cluster::sweep(SimClient& client, ipc::Opcode opcode, std::uint32_t name_space) {
  client.sweep(opcode, name_space);
  if (!step(3 * kSecond)) return false;
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
