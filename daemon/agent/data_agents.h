// DataAgents: the data half of a daemon: the pool's memory, its shards, and the threads that run
// them. Made whole, started, stopped, and only then destroyed.
// Owned by DataDaemon. Thread: control.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/admin/key_feed.h"
#include "daemon/admin/trace_recorder.h"
#include "daemon/agent/data_agent.h"
#include "daemon/agent/local_placement.h"
#include "daemon/agent/pool_recovery.h"
#include "daemon/agent/rdma_rails.h"
#include "daemon/attach/mailbox_session_control.h"
#include "daemon/base/agent_group.h"
#include "daemon/base/log.h"
#include "daemon/memory/helper/foreign_arena.h"
#include "daemon/memory/prefaulter.h"
#include "daemon/store/pool/pool_memory.h"
#include "daemon/store/space/reserved_memory.h"
#include "daemon/transport/region_mover.h"

namespace simm {

// What came back, in all shards.
struct RecoveredPool {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lost_entries = 0;
  std::uint64_t refused_tables = 0;
};

class DataAgents {
public:
  struct Setup {
    const base::Config& config;
    const base::Clock& clock;
    base::CounterSet& counters;  // these two outlive what is made
    base::Log& log;
    base::ErrorLog& errors;
    session::ControlWaker& control;
    const control::TenantRules& tenants;
    std::uint64_t hash_seed;
    bool clustered;    // there are other daemons; the maps come from a manager
    bool has_clients;  // false: a storage daemon
    // Outlives what is made; null: there is no pool.
    const store::PoolMemory* pool;
    RdmaRails* rails;  // outlives what is made; null: no RDMA ports
  };

  // Fails when memory or threads can not be had; the error names the key.
  static Expected<std::unique_ptr<DataAgents>> create(const Setup& setup);

  Outcome start() { return group_->start(); }
  // By which clients see the end of the data threads; null: there is none.
  [[nodiscard]] const ipc::DeathMark* death_mark() const noexcept {
    return death_mark_ ? &*death_mark_ : nullptr;
  }

  // The pool holds what an earlier daemon left. Its shards answer `unreachable` until
  // end_recovery().
  [[nodiscard]] bool recovers() const noexcept { return recovery_ != nullptr; }
  // While recovers(). `when_done` is called once, on another thread.
  void begin_recovery(std::function<void()> when_done) { recovery_->begin(std::move(when_done)); }
  [[nodiscard]] std::uint32_t recovery_percent() const noexcept {
    return recovery_ == nullptr ? 100 : recovery_->percent();
  }
  // When it is done: opens the shards, and says what they found. An error: it has failed, or the
  // agents were stopped meanwhile.
  Expected<RecoveredPool> end_recovery();

  // For the watchdog; see AgentGroup.
  bool have_all_turned() noexcept { return group_->have_all_turned(); }
  // Sessions must be gone: what a client still has under way would never complete.
  void stop() noexcept;

  [[nodiscard]] std::vector<control::AgentMail> mail();
  [[nodiscard]] std::vector<control::AgentTracing> tracing();
  // Of each shard.
  [[nodiscard]] std::vector<store::TenantTables*> tenants();
  // By data agent; null: it serves no shard.
  [[nodiscard]] std::vector<base::HotTables*> hot_keys();
  // Of each shard.
  [[nodiscard]] std::vector<control::KeyShard> key_events();
  // Only when clustered.
  [[nodiscard]] std::vector<control::AgentPresence> presence();
  [[nodiscard]] std::uint64_t pool_bytes() const noexcept {
    return pool_ == nullptr ? 0 : pool_->payload_bytes();
  }
  // The pool's memory, for helper processes; nothing when there is no pool.
  [[nodiscard]] memory::ForeignArena foreign_arena() const noexcept {
    if (pool_ == nullptr) return {};
    return {pool_->payload().fd(), pool_->payload().bytes()};
  }

private:
  DataAgents() = default;
  Outcome make_shared_reads(const Setup& setup, const std::vector<transport::LocalMember>& members);
  Outcome add_agents(const Setup& setup);
  Expected<std::vector<std::unique_ptr<store::Store>>> make_stores(const Setup& setup);
  void mark_deaths(const Setup& setup);
  void start_prefault(const Setup& setup);

  const store::PoolMemory* pool_ = nullptr;  // null: there is none
  std::unique_ptr<const engine::Placement> placement_;
  std::optional<ipc::DeathMark> death_mark_;
  std::unique_ptr<base::AgentGroup> group_;
  std::vector<std::unique_ptr<transport::RegionMover>> movers_;
  std::unique_ptr<transport::LocalMesh> mesh_;
  // Null: every process fetches for itself what it reads.
  std::unique_ptr<store::ReservedMemory> shared_read_memory_;
  std::vector<std::unique_ptr<transport::RegisteredRange>> shared_read_ranges_;  // with RDMA ports
  std::unique_ptr<engine::WriteMarks> write_marks_;
  std::unique_ptr<transport::LocalMesh> shared_read_mesh_;
  std::vector<std::unique_ptr<DataAgent>> agents_;
  std::unique_ptr<PoolRecovery> recovery_;          // null: nothing to recover, or all is
  std::unique_ptr<memory::Prefaulter> prefaulter_;  // null: pages come when they are first touched
};

}  // namespace simm
