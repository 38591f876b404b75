// DataAgent: everything that one data thread (or its share of the only one) runs: the sessions of
// some clients, their engine, its end of the local transport, and one shard of the store. A turn
// runs them in the order in which a request passes: sessions submit, the server serves and copies,
// the engine completes.
// Owned by DataAgents. Thread: its data thread; made and destroyed on the control thread.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/agent.h"
#include "daemon/base/config.h"
#include "daemon/base/counters.h"
#include "daemon/base/turn_clock.h"
#include "daemon/base/waiter.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/requester_table.h"
#include "daemon/server/server.h"
#include "daemon/session/session_mail.h"
#include "daemon/session/session_set.h"
#include "daemon/store/store.h"
#include "daemon/transport/local/local_mesh.h"

namespace simm {

// What all data agents of a daemon share.
struct DataAgentShared {
  const base::Config& config;
  const base::Clock& clock;
  base::CounterSet& counters;
  const engine::Placement& placement;
  session::ControlWaker& control;
  std::uint64_t hash_seed;
};

class DataAgent final : public base::Agent {
public:
  DataAgent(const DataAgentShared& shared, std::uint32_t index, std::unique_ptr<store::Store> store,
            transport::LocalMesh& mesh, base::Waiter& waiter);

  int do_work() noexcept override;
  base::TimeNs next_deadline_ns() const noexcept override;
  bool prepare_sleep() noexcept override;
  void cancel_sleep() noexcept override;
  const char* name() const noexcept override { return "data"; }

  // The control thread's ends of the mailboxes.
  [[nodiscard]] session::SessionCommands& commands() noexcept { return commands_; }
  [[nodiscard]] session::SessionEvents& events() noexcept { return events_; }

private:
  void use_own_slots(const engine::Placement& placement, std::uint16_t shard) noexcept;

  base::TurnClock clock_;
  std::unique_ptr<store::Store> store_;
  transport::LocalResponder& responder_;
  server::Server server_;
  engine::SoleRequester requesters_;
  engine::Engine engine_;
  session::SessionCommands commands_;
  session::SessionEvents events_;
  session::SessionSet sessions_;
};

}  // namespace simm
