// SimStorage: one shard of a simulated storage server: the production Server and Store behind a
// ServerEnd. A crash destroys it; a new one begins with what is proved by the pool that it is
// given. Thread: the one simulated thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "daemon/cluster/slot_map.h"
#include "daemon/server/server.h"
#include "daemon/store/store.h"
#include "tests/sim/kept_pool.h"
#include "tests/sim/process.h"
#include "tests/sim/scenario.h"
#include "tests/sim/server_end.h"
#include "tests/sim/sim_mover.h"

namespace simm::sim {

class SimStorage {
public:
  // It owns nothing before it has a map, and serves nothing before its pool is `recovered`; null: a
  // pool without contents. The pool outlives it.
  SimStorage(const Scenario& scenario, Network& network, Dice& dice, transport::Route route,
             const cluster::DaemonIdentity& self, KeptPool& pool,
             const std::atomic<bool>* recovered);
  ~SimStorage();

  [[nodiscard]] Process& process() { return process_; }
  [[nodiscard]] store::StoreStats stats() const { return store_->stats(); }
  // Losses of leased objects that nobody asked for: what P3 may be explained by.
  [[nodiscard]] std::uint64_t lease_losses() const;
  // `departures`: null: nothing moves on; `refills`: null: nobody is given copies.
  void use_map(const cluster::SlotMap& map, const cluster::Incarnation& self,
               const base::SlotDepartures* departures, const base::SlotDepartures* refills);
  [[nodiscard]] base::Epoch epoch() const { return responder_->map_epoch; }

  // Objects of slots that it has lost may still move on.
  [[nodiscard]] bool is_moving() const {
    return server_.departures().slots > 0 || (mover_ && mover_->is_busy());
  }

  void check_books(Report& report) const;
  // When it owns no slots any more: what it held has gone.
  void check_dropped(Report& report) const;
  // When nothing is under way: no leak.
  void check_idle(Report& report) const;

private:
  static std::unique_ptr<store::Store> make_store(const Scenario& scenario,
                                                  const store::ShardMemory& memory);
  static std::unique_ptr<ServerEnd> make_responder(const Scenario& scenario, Network& network,
                                                   transport::Route route, const base::Clock& clock,
                                                   std::span<std::byte> arena);
  int turn();

  ProcessClock clock_;
  Dice& dice_;
  std::unique_ptr<store::Store> store_;
  server::Server server_;
  const std::unique_ptr<ServerEnd> responder_;
  transport::Route route_;
  std::optional<SimMover> mover_;  // none: objects do not move
  Process process_;
};

}  // namespace simm::sim
