#include "daemon/agent/data_agents.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "daemon/agent/pool_counters.h"
#include "daemon/agent/pool_setup.h"
#include "daemon/cluster/map_placement.h"

namespace simm {
namespace {

constexpr long kPrefaultThreadsMax = 16;
// The first use of a page costs several times what a later one does; of a smaller pool it is over
// soon, and takes memory only as objects come.
constexpr std::uint64_t kPrefaultBytesMin = std::uint64_t{16} << 30;
static_assert(base::kDataAgentsMax <= ipc::kMarkedThreadsMax);

store::StoreConfig store_config(const DataAgents::Setup& setup, std::uint64_t shard_bytes) {
  const base::Config& config = setup.config;
  store::StoreConfig result;
  result.objects_max = config.store.objects_max / config.threading.data_agents;
  result.tenants_max = base::kTenantsServedMax;
  for (const control::Tenant& tenant : setup.tenants.tenants()) {
    if (tenant.quota_percent == 100 && tenant.weight == 1) continue;
    const bool limited = tenant.quota_percent < 100;
    result.quotas.push_back({tenant.id,
                             limited ? store::percent_of(shard_bytes, tenant.quota_percent) : 0,
                             tenant.weight});
  }
  result.lease_default_ns = config.store.lease_default_ms * base::kNsPerMs;
  result.lease_max_ns = config.store.lease_max_ms * base::kNsPerMs;
  result.lease_budget_percent = config.store.lease_budget_percent;
  result.pin_budget_percent = config.store.pin_budget_percent;
  result.eviction = config.store.eviction;
  result.free_low_permille = (100 - config.store.eviction_watermark_percent) * 10;
  result.free_high_permille = result.free_low_permille + 10;
  return result;
}

base::AgentGroupOptions group_options(const base::Config& config) {
  base::AgentGroupOptions options;
  options.mode = config.threading.mode;
  for (const std::int64_t cpu : config.threading.cpus) {
    options.cpus.push_back(static_cast<int>(cpu));
  }
  options.idle = {config.wait.mode, config.wait.spin_us * std::uint64_t{1000}};
  return options;
}

}  // namespace

Expected<std::unique_ptr<DataAgents>> DataAgents::create(const Setup& setup) {
  const std::uint32_t count = setup.config.threading.data_agents;
  std::unique_ptr<DataAgents> made(new DataAgents());
  made->pool_ = setup.pool;
  if (setup.clustered) {
    made->placement_ = std::make_unique<cluster::MapPlacement>();
  } else {
    made->placement_ = std::make_unique<LocalPlacement>(static_cast<std::uint16_t>(count));
  }
  auto group =
      base::AgentGroup::create(group_options(setup.config), count, setup.clock, setup.counters);
  if (!group) return std::move(group).error();
  made->group_ = std::move(*group);
  made->mark_deaths(setup);

  std::vector<transport::LocalMember> members;
  for (std::uint32_t i = 0; i < count; ++i) {
    made->movers_.push_back(std::make_unique<transport::RegionMover>());
    members.push_back({&made->group_->waiter(i), made->movers_.back().get()});
  }
  made->mesh_ =
      std::make_unique<transport::LocalMesh>(transport::LocalMeshConfig{}, setup.clock, members);
  Outcome added = made->make_shared_reads(setup, members);
  if (added) added = made->add_agents(setup);
  if (!added) return std::move(added).error();
  made->start_prefault(setup);
  return made;
}

// Only where nothing but the data threads touches clients' memory. Foreign memory and that of GPUs
// is copied by processes of their own, which see the end of this one later.
void DataAgents::mark_deaths(const Setup& setup) {
  if (!setup.has_clients || setup.config.memory.foreign || setup.config.gpu.enabled) return;
  auto mark = ipc::DeathMark::create(static_cast<std::uint32_t>(group_->threads()));
  if (!mark) {
    setup.log.warning("control", "clients will see a crash of this daemon late",
                      {{"why", mark.error().context}});
    return;
  }
  death_mark_.emplace(std::move(*mark));
  group_->mark_deaths(*death_mark_);
}

Outcome DataAgents::make_shared_reads(const Setup& setup,
                                      const std::vector<transport::LocalMember>& members) {
  // Storage daemons have no clients who could read together.
  const auto shards = static_cast<std::uint32_t>(members.size());
  const std::uint64_t bytes = shard_bytes_of(setup.config.node.cache_bytes, shards) * shards;
  if (!setup.clustered || !setup.has_clients || bytes == 0) return Done{};
  auto memory = store::ReservedMemory::map(bytes);
  if (!memory) return Error{memory.status(), "node.cache_bytes: " + memory.error().context};
  shared_read_memory_ = std::make_unique<store::ReservedMemory>(std::move(*memory));
  write_marks_ = std::make_unique<engine::WriteMarks>();
  transport::LocalMeshConfig config;
  config.peer = engine::kSharedReads;
  shared_read_mesh_ = std::make_unique<transport::LocalMesh>(config, setup.clock, members);
  return Done{};
}

Expected<std::vector<std::unique_ptr<store::Store>>> DataAgents::make_stores(const Setup& setup) {
  std::vector<std::unique_ptr<store::Store>> stores;
  if (pool_ == nullptr) return stores;
  const base::TimeNs now_ns = setup.clock.now_ns();
  std::vector<PoolRecovery::Shard> kept;
  for (std::uint32_t i = 0; i < setup.config.threading.data_agents; ++i) {
    const store::ShardMemory memory = pool_->shard(i, now_ns);
    auto made = store::Store::open(store_config(setup, memory.payload.size()), memory);
    if (!made) return std::move(made).error();
    kept.push_back({made->get(), memory});
    stores.push_back(std::move(*made));
  }
  if (pool_->is_kept()) recovery_ = std::make_unique<PoolRecovery>(std::move(kept));
  return stores;
}

Expected<RecoveredPool> DataAgents::end_recovery() {
  const Outcome ended = recovery_->end();
  if (!ended) return ended.error();
  RecoveredPool found;
  for (const auto& agent : agents_) {
    const store::StoreStats stats = agent->recovered_stats();
    found.objects += stats.recovered;
    found.bytes += stats.payload_bytes;
    found.lost_entries += std::accumulate(stats.lost_at_recovery.begin(),
                                          stats.lost_at_recovery.end(), std::uint64_t{0});
    found.refused_tables += stats.refused_tables;
  }
  recovery_.reset();
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    agents_[i]->open_shard();
    group_->waiter(i).wake();
  }
  return found;
}

Outcome DataAgents::add_agents(const Setup& setup) {
  const base::TenantWeights weights = setup.tenants.weights();
  const DataAgentShared shared{setup.config,
                               weights,
                               setup.tenants.replicated(),
                               setup.clock,
                               setup.counters,
                               setup.errors,
                               *placement_,
                               setup.control,
                               setup.hash_seed,
                               setup.has_clients,
                               shared_read_mesh_ != nullptr};
  const std::uint32_t count = setup.config.threading.data_agents;
  auto stores = make_stores(setup);
  if (!stores) return std::move(stores).error();
  for (std::uint32_t i = 0; i < count; ++i) {
    DataAgent::Parts parts{nullptr, false, 0, nullptr, *mesh_, *movers_[i], group_->waiter(i)};
    if (!stores->empty()) parts.store = std::move((*stores)[i]);
    parts.recovers = recovers();
    if (parts.recovers) parts.last_map = setup.pool->last_life().epoch;
    if (setup.clustered) {
      auto io = transport::make_socket_io(transport::SocketIoChoice::automatic, &parts.waiter);
      if (!io) return std::move(io).error();
      parts.network_io = std::move(*io);
      const bool is_uring = parts.network_io->kind() == transport::SocketIoKind::uring;
      if (i == 0) setup.log.info("cluster", "sockets", {{"by", is_uring ? "io_uring" : "epoll"}});
    }
    agents_.push_back(std::make_unique<DataAgent>(shared, i, std::move(parts)));
    if (setup.rails != nullptr) {
      Outcome added = agents_.back()->add_rdma(shared, i, *setup.rails);
      if (!added) return added;
    }
    if (setup.clustered) agents_.back()->connect_network();
    if (shared_read_mesh_ != nullptr) {
      const std::size_t part = shared_read_memory_->bytes() / count;
      // SAFETY: i < count, so the i-th of `count` equal parts lies inside.
      const std::span<std::byte> memory(shared_read_memory_->data() + i * part, part);
      memory::RegionKeys* keys = nullptr;
      if (setup.rails != nullptr) {
        shared_read_ranges_.push_back(setup.rails->add_own(memory));
        keys = shared_read_ranges_.back().get();
      }
      Outcome added = agents_.back()->add_shared_reads(
          shared, i, {*shared_read_mesh_, *write_marks_, memory, keys});
      if (!added) return added;
    }
    group_->add(i, *agents_.back());
  }
  return Done{};
}

// On half of the CPUs: the data agents are at work already.
void DataAgents::start_prefault(const Setup& setup) {
  if (pool_ == nullptr) return;
  PoolCounters counters(setup.counters);
  counters.bytes.set(pool_bytes());
  const bool is_large = pool_bytes() >= kPrefaultBytesMin;
  if (!setup.config.node.prefault.value_or(is_large)) return;
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto threads = static_cast<std::uint32_t>(std::clamp(cpus / 2, 1L, kPrefaultThreadsMax));
  prefaulter_ = std::make_unique<memory::Prefaulter>(
      pool_->payload().bytes().first(pool_bytes()), setup.config.threading.data_agents,
      counters.prefaulted_bytes, [&log = setup.log](const memory::PrefaultProgress& now) {
        if (now.failure == 0) {
          log.info("pool", "prefault",
                   {{"done", base::format_bytes(now.done_bytes)},
                    {"of", base::format_bytes(now.bytes)}});
          return;
        }
        log.warning("pool", "prefault ended early, the rest comes when it is first touched",
                    {{"done", base::format_bytes(now.done_bytes)},
                     {"of", base::format_bytes(now.bytes)},
                     {"why", system_error("madvise", now.failure).context}});
      });
  if (!prefaulter_->start(threads)) {
    setup.log.warning("pool",
                      "no thread for node.prefault: pages come when they are first touched");
  }
}

void DataAgents::stop() noexcept {
  if (recovery_ != nullptr) recovery_->stop();
  if (prefaulter_ != nullptr) prefaulter_->request_stop();
  group_->stop();
}

std::vector<control::AgentMail> DataAgents::mail() {
  std::vector<control::AgentMail> all;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    all.push_back({&agents_[i]->commands(), &agents_[i]->events(), &group_->waiter(i)});
  }
  return all;
}

std::vector<control::AgentTracing> DataAgents::tracing() {
  std::vector<control::AgentTracing> all;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    all.push_back({&agents_[i]->tracer(), &group_->waiter(i)});
  }
  return all;
}

std::vector<store::TenantTables*> DataAgents::tenants() {
  std::vector<store::TenantTables*> all;
  for (const auto& agent : agents_) {
    if (agent->tenants() != nullptr) all.push_back(agent->tenants());
  }
  return all;
}

std::vector<base::HotTables*> DataAgents::hot_keys() {
  std::vector<base::HotTables*> all;
  for (const auto& agent : agents_) all.push_back(agent->hot_keys());
  return all;
}

std::vector<control::KeyShard> DataAgents::key_events() {
  std::vector<control::KeyShard> all;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    base::KeyEventTap* const tap = agents_[i]->key_events();
    if (tap != nullptr) all.push_back({tap, &group_->waiter(i)});
  }
  return all;
}

std::vector<control::AgentPresence> DataAgents::presence() {
  std::vector<control::AgentPresence> all;
  for (const auto& agent : agents_) all.push_back(agent->presence());
  return all;
}

}  // namespace simm
