#include "daemon/data_agents.h"

#include <unistd.h>

#include <string>
#include <utility>

namespace simm {
namespace {

// A shard smaller than this holds no useful number of objects.
constexpr std::uint64_t kShardBytesMin = 16ull << 20;

std::uint64_t host_memory_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Expected<store::Arena> create_arena(const DataAgents::Setup& setup) {
  const base::Config& config = setup.config;
  const std::uint64_t bytes = config.node.pool_bytes.of(host_memory_bytes());
  const std::uint64_t least = kShardBytesMin * config.threading.data_agents;
  if (bytes < least) {
    return Error{Status::invalid_argument,
                 "node.pool_bytes = " + base::format_bytes(bytes) + ": write at least " +
                     base::format_bytes(least) + " (" + base::format_bytes(kShardBytesMin) +
                     " for each data agent); a node without a pool of its own needs a cluster, "
                     "which this version does not join"};
  }
  store::ArenaConfig wanted;
  wanted.bytes = bytes;
  wanted.hugepages = config.node.hugepages != base::HugepageMode::off;
  wanted.numa_node = config.node.numa;
  wanted.prefault_threads =
      config.node.prefault ? static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN)) : 0;
  auto arena = store::Arena::create(wanted);
  if (!arena) {
    return Error{arena.status(),
                 "node.pool_bytes = " + base::format_bytes(bytes) + ": " + arena.error().context};
  }
  if (config.node.hugepages == base::HugepageMode::require && !arena->uses_hugepages()) {
    return Error{Status::out_of_memory, "node.hugepages = require: " + arena->note()};
  }
  if (!arena->note().empty()) setup.log.info("pool", arena->note());
  return arena;
}

store::StoreConfig store_config(const DataAgents::Setup& setup, std::uint64_t shard_bytes) {
  const base::Config& config = setup.config;
  store::StoreConfig result;
  result.objects_max = config.store.objects_max / config.threading.data_agents;
  result.tenants_max = base::kTenantsMax;
  for (const control::Tenant& tenant : setup.tenants.tenants()) {
    if (tenant.quota_percent == 100) continue;
    result.quotas.push_back({tenant.id, store::percent_of(shard_bytes, tenant.quota_percent)});
  }
  result.lease_default_ns = config.store.lease_default_ms * base::kNsPerMs;
  result.lease_max_ns = config.store.lease_max_ms * base::kNsPerMs;
  result.lease_budget_percent = config.store.lease_budget_percent;
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
  auto arena = create_arena(setup);
  if (!arena) return std::move(arena).error();

  std::unique_ptr<DataAgents> made(new DataAgents());
  made->arena_ = std::make_unique<store::Arena>(std::move(*arena));
  made->placement_ = std::make_unique<LocalPlacement>(static_cast<std::uint16_t>(count));
  auto group =
      base::AgentGroup::create(group_options(setup.config), count, setup.clock, setup.counters);
  if (!group) return std::move(group).error();
  made->group_ = std::move(*group);

  std::vector<transport::LocalMember> members;
  for (std::uint32_t i = 0; i < count; ++i) {
    made->movers_.push_back(std::make_unique<transport::RegionMover>());
    members.push_back({&made->group_->waiter(i), made->movers_.back().get()});
  }
  made->mesh_ = std::make_unique<transport::LocalMesh>(transport::LocalMeshConfig{}, members);

  const DataAgentShared shared{setup.config,      setup.clock,   setup.counters,
                               *made->placement_, setup.control, setup.hash_seed};
  constexpr std::uint64_t kHugePage = 2ull << 20;
  const std::uint64_t shard_bytes = made->arena_->bytes().size() / count / kHugePage * kHugePage;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto shard = store::Store::create(store_config(setup, shard_bytes),
                                      made->arena_->bytes().subspan(i * shard_bytes, shard_bytes));
    if (!shard) return std::move(shard).error();
    made->agents_.push_back(std::make_unique<DataAgent>(shared, i, std::move(*shard), *made->mesh_,
                                                        made->group_->waiter(i)));
    made->group_->add(i, *made->agents_.back());
  }
  return made;
}

std::vector<control::AgentMail> DataAgents::mail() {
  std::vector<control::AgentMail> all;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    all.push_back({&agents_[i]->commands(), &agents_[i]->events(), &group_->waiter(i)});
  }
  return all;
}

}  // namespace simm
