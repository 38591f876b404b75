// SimStorage: one shard of a simulated storage server: the production Server and Store behind a
// ServerEnd. A crash destroys it with all that it held; a new one begins empty.
// Thread: the one simulated thread.
#pragma once

#include <memory>
#include <vector>

#include "daemon/cluster/slot_map.h"
#include "daemon/server/server.h"
#include "daemon/store/store.h"
#include "tests/sim/process.h"
#include "tests/sim/scenario.h"
#include "tests/sim/server_end.h"

namespace simm::sim {

class SimStorage {
public:
  // It owns nothing before it has a map.
  SimStorage(const Scenario& scenario, Network& network, Dice& dice, transport::Route route);
  ~SimStorage();

  [[nodiscard]] Process& process() { return process_; }
  [[nodiscard]] store::StoreStats stats() const { return store_->stats(); }
  // Losses of leased objects that nobody asked for: what P3 may be explained by.
  [[nodiscard]] std::uint64_t lease_losses() const;
  void use_map(const cluster::SlotMap& map, const cluster::Incarnation& self);
  [[nodiscard]] base::Epoch epoch() const { return responder_->map_epoch; }

  void check_books(Report& report) const;
  // When it owns no slots any more: what it held has gone.
  void check_dropped(Report& report) const;
  // When nothing is under way: no leak.
  void check_idle(Report& report) const;

private:
  static std::unique_ptr<store::Store> make_store(const Scenario& scenario,
                                                  std::span<std::byte> arena);
  static std::unique_ptr<ServerEnd> make_responder(const Scenario& scenario, Network& network,
                                                   transport::Route route, const base::Clock& clock,
                                                   std::span<std::byte> arena);
  int turn();

  ProcessClock clock_;
  Dice& dice_;
  std::vector<std::byte> arena_;
  std::unique_ptr<store::Store> store_;
  server::Server server_;
  const std::unique_ptr<ServerEnd> responder_;
  transport::Route route_;
  Process process_;
};

}  // namespace simm::sim
