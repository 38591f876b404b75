#include "daemon/agent/data_agent.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/agent/local_placement.h"
#include "daemon/base/limits.h"

namespace simm {
namespace {

// One number must not name nobody and the shared-read shards.
static_assert(cluster::kNoPeer != engine::kSharedReads);

// That may be on their way to one agent of this process.
std::uint32_t local_requests_max(const base::Config& config) {
  const std::uint32_t agents = config.threading.data_agents;
  return transport::LocalMeshConfig{}.credits_of(agents) * agents;
}

// Who names objects: shards of the pool from 1 on, those of shared reads beyond them.
constexpr std::uint32_t origin_of_pool_shard(std::uint32_t agent) {
  return 1 + agent;
}
constexpr std::uint32_t origin_of_shared_reads(std::uint32_t agent) {
  return origin_of_pool_shard(base::kDataAgentsMax) + agent;
}

shared_reads::SharedReadConfig shared_read_config(const base::Config& config,
                                                  std::uint32_t agent = 0) {
  shared_reads::SharedReadConfig result;
  result.origin = origin_of_shared_reads(agent);
  result.requests_max = local_requests_max(config);
  result.linger_ns = config.node.cache_linger_ms * base::kNsPerMs;
  return result;
}

engine::EngineConfig engine_config(const base::Config& config, bool has_shared_reads,
                                   bool writes_replicas) {
  engine::EngineConfig result;
  result.fetches = moves::SlotMover::kOperationsMax + moves::ReplicaMover::kBatchesMax;
  if (has_shared_reads) result.fetches += shared_read_config(config).operations();
  if (writes_replicas) result.replicas = config.engine.operations_max;
  result.operations = config.engine.operations_max + result.fetches + result.replicas;
  result.requests = result.operations * 4;
  result.fence_budget_percent = config.engine.fence_budget_percent;
  result.fence_budget_min_ns = config.engine.fence_budget_min_ms * base::kNsPerMs;
  result.fence_budget_max_ns = config.engine.fence_budget_max_ms * base::kNsPerMs;
  result.fence_grace_ns = config.engine.fence_grace_ms * base::kNsPerMs;
  return result;
}

server::ServerConfig server_config(const base::Config& config, std::uint32_t agent,
                                   bool has_network, const base::TenantWeights& weights,
                                   const base::ReplicatedNamespaces& replicated) {
  server::ServerConfig result;
  result.origin = origin_of_pool_shard(agent);
  result.weights = weights;
  // All credits of all engines of this process, and of all connections, may meet at one shard.
  result.requests_max = local_requests_max(config);
  if (has_network) {
    result.requests_max += DataAgentNetwork::kRequestsMax;
  }
  result.scrub_bytes_per_s = (config.store.scrub_bytes_per_s + config.threading.data_agents - 1) /
                             config.threading.data_agents;
  result.verify = config.store.verify;
  result.replicated = replicated;
  if (has_network) result.arrival_window_ns = config.cluster.move_window_ms * base::kNsPerMs;
  return result;
}

moves::MoverConfig mover_config(const base::Config& config, std::uint32_t shard) {
  moves::MoverConfig result;
  result.bytes_per_s = std::max<std::uint64_t>(
      config.cluster.move_bytes_per_s / config.threading.data_agents, 1'000'000);
  result.window_ns = config.cluster.move_window_ms * base::kNsPerMs;
  result.grace_ns = config.engine.fence_grace_ms * base::kNsPerMs;
  result.teller.shard = shard;
  return result;
}

session::SessionSetLimits session_limits(const base::Config& config) {
  session::SessionSetLimits limits;
  // Sessions go to the agent with the fewest, but those that leave do not choose where. Each tenant
  // that may come by a socket has its sessions_max there: one, or whoever has a uid or gid, and
  // the default one.
  std::uint32_t guests = 0;
  for (const base::SocketConfig& socket : config.sockets) {
    guests += socket.tenant.empty() ? static_cast<std::uint32_t>(config.tenants.size()) + 1 : 1;
  }
  limits.sessions_max = config.session.sessions_max * guests;
  limits.operations_max = config.engine.operations_max;
  return limits;
}

}  // namespace

DataAgent::DataAgent(const DataAgentShared& shared, std::uint32_t index, Parts parts)
    : control_(shared.control),
      clock_(shared.clock),
      store_(std::move(parts.store)),
      recovered_(!parts.recovers),
      requesters_(parts.mesh.requester(index), DataAgentNetwork::kPeersMax),
      engine_(
          engine_config(shared.config, shared.has_shared_reads,
                        parts.network_io != nullptr && !shared.replicated.empty()),
          clock_, engine::PageHasher(shared.hash_seed), shared.placement, requesters_,
          engine::EngineCounters(shared.counters.begin_writer(), base::numbered("engine", index))),
      commands_(base::kMailboxMessages),
      events_(base::kMailboxMessages),
      sessions_(session_limits(shared.config), engine_, clock_, parts.waiter, commands_, events_,
                shared.control,
                session::SessionCounters(shared.counters, base::numbered("session", index))) {
  const bool has_network = parts.network_io != nullptr;
  if (store_ != nullptr) {
    server_.emplace(
        server_config(shared.config, index, has_network, shared.weights, shared.replicated),
        *store_, clock_, server::ServerCounters(shared.counters, base::numbered("server", index)),
        server::StoreCounters(shared.counters, base::numbered("store", index)),
        server::ScrubCounters(shared.counters, base::numbered("scrub", index)), &shared.errors);
    if (parts.recovers) server_->close_until(recovered_, parts.last_map);
    server_->trace_with(sessions_.tracer());
    responders_.add(parts.mesh.responder(index));
    responders_.connect(*server_);
  }
  if (has_network) {
    network_.emplace(shared.config, shared.weights, clock_, std::move(parts.network_io),
                     parts.mover, parts.waiter, shared.counters, index, shared.has_clients,
                     store_ != nullptr);
    if (server_ && shared.config.cluster.move_bytes_per_s > 0) {
      mover_.emplace(mover_config(shared.config, index), *store_, *server_, engine_, clock_,
                     moves::MoverCounters(shared.counters, base::numbered("moves", index)));
      if (!shared.replicated.empty()) {
        replica_mover_.emplace(
            mover_config(shared.config, index), shared.replicated, *store_, *server_, engine_,
            clock_, moves::RefillCounters(shared.counters, base::numbered("refills", index)));
      }
    }
    engine_.use_replicas(shared.replicated);
  } else {
    use_own_slots(shared.placement, static_cast<std::uint16_t>(index));
  }
  parts.mesh.requester(index).connect(engine_, &sessions_);
}

void DataAgent::connect_network() {
  for (transport::Responder* responder : network_->responders()) responders_.add(*responder);
  if (server_) responders_.connect(*server_);
  transport::Requester* const requester = network_->requester();
  if (requester == nullptr) return;
  requester->connect(engine_, &sessions_);
  requesters_.add(*requester);
  for (std::uint32_t peer = 0; peer < DataAgentNetwork::kPeersMax; ++peer) {
    if (base::PeerId{peer} != base::kSelf) requesters_.lead(base::PeerId{peer}, requester);
  }
}

Outcome DataAgent::add_rdma(const DataAgentShared& shared, std::uint32_t index,
                            const RdmaRails& rails) {
  return network_->add_rdma(rails, shared.counters, index);
}

Outcome DataAgent::add_shared_reads(const DataAgentShared& shared, std::uint32_t index,
                                    const SharedReadParts& parts) {
  auto made = shared_reads::SharedReadServer::create(
      shared_read_config(shared.config, index),
      {engine_, clock_, parts.marks, parts.memory, parts.keys,
       shared_reads::SharedReadCounters(shared.counters, base::numbered("shared_reads", index))});
  if (!made) return std::move(made).error();
  shared_reads_ = std::move(*made);
  shared_read_responder_ = &parts.mesh.responder(index);
  shared_read_responder_->connect(*shared_reads_);
  parts.mesh.requester(index).connect(engine_, &sessions_);
  requesters_.add(parts.mesh.requester(index));
  requesters_.lead(engine::kSharedReads, &parts.mesh.requester(index));
  engine_.use_shared_reads(static_cast<std::uint16_t>(parts.mesh.size()), parts.marks);
  return Done{};
}

// What the placement gives to this shard of this daemon, from its first map on.
void DataAgent::use_own_slots(const engine::Placement& placement, std::uint16_t shard) noexcept {
  const auto map = std::make_unique<base::SlotOwnership>();
  map->epoch = placement.epoch();
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    const transport::Route owner = placement.route(static_cast<base::Slot>(slot));
    if (owner == transport::Route{base::kSelf, shard}) map->since[slot] = map->epoch;
  }
  server_->use_map(*map);
}

int DataAgent::take_maps() noexcept {
  return network_->take_maps([this](const cluster::AgentMap& map) {
    if (server_) server_->use_map(map.ownership, mover_ ? map.departures.get() : nullptr);
    if (mover_) mover_->on_map();
    if (replica_mover_) {
      if (map.refills != nullptr) server_->note_refills(*map.refills);
      replica_mover_->on_map(map.refills.get());
    }
    engine_.use_placement(*map.placement);
  });
}

void DataAgent::end() noexcept {
  // In each turn anew, because there may be connections in a mailbox. The kernel lets go of what it
  // is told to cancel, so this is over soon; of the thread that asked for it alone it is told.
  while (server_ && server_->requests_under_way() > 0) {
    clock_.refresh();
    responders_.drop_all();
    responders_.do_work();
    server_->do_work();
  }
}

int DataAgent::do_work() noexcept {
  clock_.refresh();
  int work = network_ ? take_maps() : 0;
  // What has to be told to the control thread: that a map is in use.
  bool has_news = work > 0;
  work += sessions_.do_work();
  work += responders_.do_work();
  if (server_) work += server_->do_work();
  work += responders_.run_moves();  // what the server has just started
  if (shared_reads_ != nullptr) {
    work += shared_read_responder_->do_work();
    work += shared_reads_->do_work();
    work += shared_read_responder_->run_moves();
  }
  if (mover_) work += mover_->do_work();
  if (replica_mover_) work += replica_mover_->do_work();
  work += engine_.do_work();
  if (network_) has_news = network_->take_news() || has_news;
  if (has_news) control_.wake_control();
  return work;
}

base::TimeNs DataAgent::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = std::min({sessions_.next_deadline_ns(), engine_.next_deadline_ns(),
                                   requesters_.next_deadline_ns(), responders_.next_deadline_ns()});
  if (server_) next_ns = std::min(next_ns, server_->next_deadline_ns());
  if (mover_) next_ns = std::min(next_ns, mover_->next_deadline_ns());
  if (replica_mover_) next_ns = std::min(next_ns, replica_mover_->next_deadline_ns());
  if (shared_reads_ != nullptr) {
    next_ns = std::min(
        {next_ns, shared_read_responder_->next_deadline_ns(), shared_reads_->next_deadline_ns()});
  }
  return next_ns;
}

bool DataAgent::prepare_sleep() noexcept {
  const bool sessions_may = sessions_.prepare_sleep();
  const bool server_may = !server_ || server_->prepare_sleep();
  const bool requesters_may = requesters_.prepare_sleep();
  const bool responders_may = responders_.prepare_sleep();
  const bool shared_reads_may =
      shared_read_responder_ == nullptr || shared_read_responder_->prepare_sleep();
  return engine_.prepare_sleep() && sessions_may && server_may && requesters_may &&
         responders_may && shared_reads_may;
}

void DataAgent::cancel_sleep() noexcept {
  sessions_.cancel_sleep();
  if (server_) server_->cancel_sleep();
  engine_.cancel_sleep();
}

}  // namespace simm
