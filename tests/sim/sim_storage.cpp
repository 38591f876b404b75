#include "tests/sim/sim_storage.h"

#include "daemon/cluster/map_ownership.h"
#include "simm/check.h"
#include "tests/sim/sim_responder.h"
#include "tests/sim/tcp_server_end.h"

namespace simm::sim {

std::unique_ptr<store::Store> SimStorage::make_store(const Scenario& scenario,
                                                     const store::ShardMemory& memory) {
  auto made = store::Store::create(scenario.store, memory);
  SIMM_CHECK(made.has_value());
  return std::move(made).value();
}

std::unique_ptr<ServerEnd> SimStorage::make_responder(const Scenario& scenario, Network& network,
                                                      transport::Route route,
                                                      const base::Clock& clock,
                                                      std::span<std::byte> arena) {
  if (!scenario.tcp.is_used) return std::make_unique<SimResponder>(network, route, clock);
  return std::make_unique<TcpServerEnd>(scenario, network, route, clock, arena);
}

SimStorage::SimStorage(const Scenario& scenario, Network& network, Dice& dice,
                       transport::Route route, const cluster::DaemonIdentity& self, KeptPool& pool,
                       const std::atomic<bool>* recovered)
    : clock_(network.loop(), pool.ahead_ns(route.shard, dice)),
      dice_(dice),
      store_(make_store(scenario, pool.memory(route.shard, clock_.now_ns()))),
      server_(scenario.server, *store_, clock_),
      responder_(make_responder(scenario, network, route, clock_, store_->arena())),
      route_(route),
      process_(
          network.loop(), dice, clock_, [this] { return turn(); },
          [this] {
            const base::TimeNs moves_ns = mover_ ? mover_->next_deadline_ns() : base::kNoDeadline;
            return std::min({server_.next_deadline_ns(), responder_->next_deadline_ns(), moves_ns});
          }) {
  if (recovered != nullptr) server_.close_until(*recovered, pool.epoch());
  if (scenario.moves) {
    mover_.emplace(scenario, network, clock_, self, route.shard, *store_, server_);
    mover_->on_wake([this] { process_.wake(); });
  }
  responder_->connect(server_);
  responder_->wake = [this] { process_.wake(); };
}

void SimStorage::use_map(const cluster::SlotMap& map, const cluster::Incarnation& self,
                         const base::SlotDepartures* departures,
                         const base::SlotDepartures* refills) {
  const auto slots = std::make_unique<base::SlotOwnership>();
  cluster::fill_ownership(*slots, map, self, route_.shard);
  server_.use_map(*slots, mover_ ? departures : nullptr);
  if (refills != nullptr) server_.note_refills(*refills);
  if (mover_) mover_->use_map(map, refills);
  responder_->map_epoch = map.epoch();
  process_.wake();
}

// The server checks in its destructor that it has no request: so they end first.
SimStorage::~SimStorage() {
  mover_.reset();
  responder_->crash();
}

int SimStorage::turn() {
  const int moves = mover_ ? mover_->do_work() : 0;
  if (dice_.percent(50)) return moves + responder_->do_work() + server_.do_work();
  const int work = moves + server_.do_work();
  return work + responder_->do_work();
}

std::uint64_t SimStorage::lease_losses() const {
  const store::StoreStats stats = store_->stats();
  return stats.lost_in_lease[static_cast<std::size_t>(store::LeaseLoss::lease_budget)] +
         stats.lost_in_lease[static_cast<std::size_t>(store::LeaseLoss::corrupt)];
}

void SimStorage::check_books(Report& report) const {
  if (const char* wrong = store_->audit()) {
    report.violation("books", "server %u.%u: %s", route_.peer.value, route_.shard, wrong);
  }
}

void SimStorage::check_dropped(Report& report) const {
  const bool busy = server_.requests_under_way() + server_.moves_under_way() > 0 ||
                    server_.departures().slots > 0 || (mover_ && mover_->is_busy());
  if (busy || !server_.has_dropped_lost_slots() || store_->stats().objects == 0) return;
  report.violation("P7", "server %u.%u owns no slots and holds %llu objects", route_.peer.value,
                   route_.shard, static_cast<unsigned long long>(store_->stats().objects));
}

void SimStorage::check_idle(Report& report) const {
  check_books(report);
  const store::StoreStats s = store_->stats();
  const bool holds = s.objects + s.extent_bytes + s.payload_bytes > 0;
  if (s.reserved + s.lingering > 0 || holds ||
      server_.requests_under_way() + server_.moves_under_way() > 0 ||
      responder_->incoming_count() > 0) {
    report.violation("live",
                     "server %u.%u leaks: %llu objects, %llu reserved, %llu lingering, "
                     "%llu extent bytes, %u requests, %u moves",
                     route_.peer.value, route_.shard, static_cast<unsigned long long>(s.objects),
                     static_cast<unsigned long long>(s.reserved),
                     static_cast<unsigned long long>(s.lingering),
                     static_cast<unsigned long long>(s.extent_bytes), server_.requests_under_way(),
                     server_.moves_under_way());
  }
}

}  // namespace simm::sim
