// SimServer: the process of one storage daemon: its shards, and the control thread that joins the
// manager and tells the shards of new maps, each in its own time. Destroying it is its death.
// Thread: the one simulated thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/cluster/departure_book.h"
#include "daemon/cluster/drain_course.h"
#include "daemon/cluster/refill_book.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_storage.h"

namespace simm::sim {

class SimServer {
public:
  // `expelled`: it has to stop, and must not be destroyed inside the call. `recovery_ns`: how long
  // it reads back its pool; 0: there is nothing in there.
  SimServer(const Scenario& scenario, Network& network, ControlNetwork& control, Dice& dice,
            MapBook& maps, std::shared_ptr<KeptPool> pool, base::TimeNs recovery_ns,
            std::function<void()> expelled);

  [[nodiscard]] Serial serial() const { return member_.serial(); }
  [[nodiscard]] SimMember& member() { return member_; }
  [[nodiscard]] KeptPool& pool() { return *pool_; }
  [[nodiscard]] const std::vector<std::unique_ptr<SimStorage>>& shards() const { return shards_; }

  void pause();
  void resume();
  [[nodiscard]] bool paused() const { return member_.paused(); }
  // Hands its slots over step by step, as a person has asked for; and takes them back.
  void begin_drain(std::uint32_t steps, base::TimeNs ends_ns);
  void cancel_drain();
  [[nodiscard]] bool hands_over() const { return course_.is_on() && !has_left_; }
  [[nodiscard]] bool takes_back() const { return course_.is_cancelled(); }
  [[nodiscard]] cluster::DrainState drain_state() const { return course_.state(); }
  // Is about to stop: wants no slots any more, whatever it was asked for.
  void leave();
  [[nodiscard]] bool has_left() const { return has_left_; }
  // Every shard uses the map of that epoch.
  [[nodiscard]] bool uses(base::Epoch epoch) const;

private:
  void take_map(const cluster::SlotMapPtr& map);
  void end_recovery_after(base::TimeNs left_ns);
  void tell_shard(std::size_t shard);
  void look_at_drain();
  void drop_departures();
  [[nodiscard]] bool has_moved_all() const;
  [[nodiscard]] bool is_moving() const;

  Network& network_;
  Dice& dice_;
  const std::shared_ptr<KeptPool> pool_;
  const std::function<void()> expelled_;
  std::atomic<bool> is_recovered_;
  std::vector<std::unique_ptr<SimStorage>> shards_;
  cluster::DepartureBook departures_;
  cluster::RefillBook refills_;
  const bool is_replicated_;
  cluster::SlotMapPtr last_map_;
  cluster::DrainCourse course_;
  std::uint64_t drains_ = 0;  // how many were begun or cancelled
  bool has_left_ = false;
  SimMember member_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
