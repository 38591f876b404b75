// DataAgent: everything that one data thread (or its share of the only one) runs. That is the
// sessions of some clients, their engine, the ends of the transports, and one shard of the store.
// A turn runs them in the order in which a request passes: sessions submit, the server serves and
// copies, the engine completes.
// Owned by DataAgents. Thread: its data thread; made and destroyed on the control thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "daemon/agent/data_agent_network.h"
#include "daemon/agent/rdma_rails.h"
#include "daemon/base/agent.h"
#include "daemon/base/config.h"
#include "daemon/base/counters.h"
#include "daemon/base/error_log.h"
#include "daemon/base/turn_clock.h"
#include "daemon/base/waiter.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/requester_table.h"
#include "daemon/engine/write_marks.h"
#include "daemon/moves/replica_mover.h"
#include "daemon/moves/slot_mover.h"
#include "daemon/server/server.h"
#include "daemon/session/session_mail.h"
#include "daemon/session/session_set.h"
#include "daemon/shared_reads/shared_read_server.h"
#include "daemon/store/store.h"
#include "daemon/transport/local/local_mesh.h"
#include "daemon/transport/responder_list.h"

namespace simm {

// What all data agents of a daemon share.
struct DataAgentShared {
  const base::Config& config;
  const base::TenantWeights& weights;  // of turns
  const base::ReplicatedNamespaces& replicated;
  const base::Clock& clock;
  base::CounterSet& counters;
  base::ErrorLog& errors;
  // Of a daemon alone for ever, of a cluster until the first map comes.
  const engine::Placement& placement;
  session::ControlWaker& control;
  std::uint64_t hash_seed;
  bool has_clients;
  bool has_shared_reads;
};

// How a node fetches once what several of its processes read: of one data agent.
struct SharedReadParts {
  transport::LocalMesh& mesh;  // to the shared-read shards of all data agents
  engine::WriteMarks& marks;   // shared by all data agents
  std::span<std::byte> memory;
  memory::RegionKeys* keys = nullptr;  // what RDMA ports know of it; null: none does
};

class DataAgent final : public base::Agent {
public:
  // What is this agent's own.
  struct Parts {
    std::unique_ptr<store::Store> store;              // null: it serves no shard
    bool recovers = false;                            // another thread works on the store
    base::Epoch last_map = 0;                         // that an earlier process had
    std::unique_ptr<transport::SocketIo> network_io;  // null: there are no other daemons
    transport::LocalMesh& mesh;
    transport::Mover& mover;
    base::Waiter& waiter;
  };
  DataAgent(const DataAgentShared& shared, std::uint32_t index, Parts parts);
  // At set-up, in a cluster, where this host has RDMA ports.
  Outcome add_rdma(const DataAgentShared& shared, std::uint32_t index, const RdmaRails& rails);
  // At set-up, when shared.has_shared_reads. Fails when memory for its tables is refused.
  Outcome add_shared_reads(const DataAgentShared& shared, std::uint32_t index,
                           const SharedReadParts& parts);

  // At set-up, in a cluster, behind add_rdma() and before the first turn: the ends of its
  // transports know whom they serve and tell.
  void connect_network();

  int do_work() noexcept override;
  base::TimeNs next_deadline_ns() const noexcept override;
  bool prepare_sleep() noexcept override;
  void cancel_sleep() noexcept override;
  // Others may still ask: they are hung up on, and what they asked for ends before the server does.
  void end() noexcept override;
  const char* name() const noexcept override { return "data"; }

  // Control thread, once, when the store of Parts::recovers is recovered: the shard is served from
  // the next turn on.
  void open_shard() noexcept { recovered_.store(true, std::memory_order_release); }
  // Before that, of a store that is recovered.
  [[nodiscard]] store::StoreStats recovered_stats() const noexcept { return store_->stats(); }

  // The control thread's ends of the mailboxes.
  [[nodiscard]] session::SessionCommands& commands() noexcept { return commands_; }
  [[nodiscard]] session::SessionEvents& events() noexcept { return events_; }
  // Null: it serves no shard.
  [[nodiscard]] store::TenantTables* tenants() noexcept {
    return server_ ? &server_->tenants() : nullptr;
  }
  // Null: the same.
  [[nodiscard]] base::HotTables* hot_keys() noexcept {
    return server_ ? &server_->hot_keys() : nullptr;
  }
  // Null: the same.
  [[nodiscard]] base::KeyEventTap* key_events() noexcept {
    return store_ ? &store_->key_events() : nullptr;
  }
  // Ordered by the control thread.
  [[nodiscard]] base::Tracer& tracer() noexcept { return sessions_.tracer(); }
  // Only where there are other daemons.
  [[nodiscard]] control::AgentPresence presence() noexcept { return network_->presence(); }

private:
  void use_own_slots(const engine::Placement& placement, std::uint16_t shard) noexcept;
  int take_maps() noexcept;

  session::ControlWaker& control_;
  base::TurnClock clock_;
  std::unique_ptr<store::Store> store_;
  std::atomic<bool> recovered_;
  transport::ResponderList responders_;  // to server_
  std::optional<DataAgentNetwork> network_;
  std::optional<server::Server> server_;
  engine::PeerRequesters requesters_;
  engine::Engine engine_;
  std::optional<moves::SlotMover> mover_;             // none: what loses its slot is dropped
  std::optional<moves::ReplicaMover> replica_mover_;  // none: nothing is kept twice
  transport::Responder* shared_read_responder_ = nullptr;
  std::unique_ptr<shared_reads::SharedReadServer>
      shared_reads_;  // null: every read goes to its owner
  session::SessionCommands commands_;
  session::SessionEvents events_;
  session::SessionSet sessions_;
};

}  // namespace simm
