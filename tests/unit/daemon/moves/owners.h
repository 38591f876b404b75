// Owners of slots for tests of what moves between them: production store and server, and a way to
// them that can be cut. Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/requester_table.h"
#include "daemon/server/server.h"
#include "daemon/store/store.h"

namespace moves_world {

using namespace simm;

inline constexpr base::Epoch kBefore = 5;  // the former owner's tenure
inline constexpr base::Epoch kAfter = 8;   // the new owner's
inline constexpr std::uint64_t kSeed = 77;

struct ToNewOwner final : engine::Placement {
  base::Epoch at = kAfter;
  base::PeerId peer = base::kSelf;
  base::Epoch epoch() const noexcept override { return at; }
  transport::Route route(base::Slot) const noexcept override { return {peer, 1}; }
};

// No way to anybody but, while it is open, through the mesh.
class Gate final : public engine::RequesterTable {
public:
  explicit Gate(transport::Requester& way) : way_(way) {}
  transport::Requester* find(base::PeerId) noexcept override { return is_open ? &way_ : nullptr; }
  int do_work() noexcept override { return way_.do_work(); }
  bool is_open = true;

private:
  transport::Requester& way_;
};

struct Owner {
  // `replicated`: namespaces that are kept twice.
  Owner(const base::Clock& clock, std::uint64_t arena_bytes,
        base::ReplicatedNamespaces replicated = {})
      : arena(arena_bytes) {
    store::StoreConfig limits;
    limits.free_low_permille = limits.free_high_permille = 0;
    store = store::Store::create(limits, arena).value();
    server::ServerConfig config;
    config.verify = base::VerifyMode::always;
    config.replicated = std::move(replicated);
    config.arrival_window_ns = 60 * base::kNsPerSecond;
    server = std::make_unique<server::Server>(config, *store, clock,
                                              server::ServerCounters(counters, "server"));
  }
  void own_all(base::Epoch epoch, base::Epoch since,
               const base::SlotDepartures* departures = nullptr) {
    map->epoch = epoch;
    map->since.fill(since);
    server->use_map(*map, departures);
  }
  std::vector<std::byte> arena;
  base::CounterSet counters;
  std::unique_ptr<base::SlotOwnership> map = std::make_unique<base::SlotOwnership>();
  std::unique_ptr<store::Store> store;
  std::unique_ptr<server::Server> server;
};

}  // namespace moves_world
