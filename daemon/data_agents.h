// DataAgents: the data half of a daemon: the pool's memory, its shards, and the threads that run
// them. Made whole, started, stopped, and only then destroyed.
// Owned by NodeDaemon. Thread: control.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/agent_group.h"
#include "daemon/base/log.h"
#include "daemon/control/mailbox_data_plane.h"
#include "daemon/data_agent.h"
#include "daemon/local_placement.h"
#include "daemon/memory/foreign_arena.h"
#include "daemon/store/arena.h"
#include "daemon/transport/region_mover.h"

namespace simm {

class DataAgents {
public:
  struct Setup {
    const base::Config& config;
    const base::Clock& clock;
    base::CounterSet& counters;
    base::Log& log;
    session::ControlWaker& control;
    const control::TenantRules& tenants;
    std::uint64_t hash_seed;
  };

  // Fails when the pool is empty or its memory can not be had; the error names the key.
  static Expected<std::unique_ptr<DataAgents>> create(const Setup& setup);

  Outcome start() { return group_->start(); }
  // Sessions must be gone: what a client still has under way would never complete.
  void stop() noexcept { group_->stop(); }

  [[nodiscard]] std::vector<control::AgentMail> mail();
  [[nodiscard]] std::uint64_t pool_bytes() const noexcept { return arena_->bytes().size(); }
  // The pool's memory, for helper processes.
  [[nodiscard]] memory::ForeignArena foreign_arena() const noexcept {
    return {arena_->fd(), arena_->bytes()};
  }

private:
  DataAgents() = default;

  std::unique_ptr<store::Arena> arena_;
  std::unique_ptr<LocalPlacement> placement_;
  std::unique_ptr<base::AgentGroup> group_;
  std::vector<std::unique_ptr<transport::RegionMover>> movers_;
  std::unique_ptr<transport::LocalMesh> mesh_;
  std::vector<std::unique_ptr<DataAgent>> agents_;
};

}  // namespace simm
