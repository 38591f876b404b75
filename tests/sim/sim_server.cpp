#include "tests/sim/sim_server.h"

#include <algorithm>
#include <utility>

namespace simm::sim {

SimServer::SimServer(const Scenario& scenario, Network& network, ControlNetwork& control,
                     Dice& dice, MapBook& maps, std::shared_ptr<KeptPool> pool,
                     base::TimeNs recovery_ns, std::function<void()> expelled)
    : network_(network),
      dice_(dice),
      pool_(std::move(pool)),
      expelled_(std::move(expelled)),
      is_recovered_(recovery_ns == 0),
      departures_(pool_->config().identity.incarnation),
      refills_(pool_->config().identity.incarnation,
               recovery_ns == 0 ? cluster::RefillBook::kNoEarlierLife : pool_->epoch()),
      is_replicated_(scenario.replicated),
      member_(control, dice, maps, network.report(), pool_->config(),
              {[this](const cluster::SlotMapPtr& map) { take_map(map); },
               [this] { expelled_(); },
               {},
               [this] { return !is_recovered_; }}) {
  const cluster::MemberConfig& config = pool_->config();
  const base::PeerId peer{member_.serial()};
  const std::atomic<bool>* const recovered = recovery_ns == 0 ? nullptr : &is_recovered_;
  for (std::uint16_t shard = 0; shard < config.shards; ++shard) {
    const transport::Route route{peer, shard};
    shards_.push_back(std::make_unique<SimStorage>(scenario, network, dice, route, config.identity,
                                                   *pool_, recovered));
  }
  if (recovery_ns > 0) end_recovery_after(recovery_ns);
}

void SimServer::end_recovery_after(base::TimeNs left_ns) {
  network_.loop().after(left_ns, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    if (paused()) return end_recovery_after(10 * kMs);
    is_recovered_ = true;
    for (const auto& shard : shards_) shard->process().wake();
  });
}

void SimServer::take_map(const cluster::SlotMapPtr& map) {
  if (!pool_->takes(*map)) return expelled_();
  departures_.use(*map, last_map_.get());
  if (course_.is_late()) departures_.clear();
  if (last_map_ != nullptr && uses(last_map_->epoch()) && !is_moving()) refills_.clear();
  if (is_replicated_) refills_.use(*map, last_map_.get());
  last_map_ = map;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) tell_shard(shard);
}

void SimServer::pause() {
  network_.stopped(serial(), true);
  member_.pause();
  for (const auto& shard : shards_) shard->process().pause();
}

void SimServer::resume() {
  network_.stopped(serial(), false);
  for (const auto& shard : shards_) shard->process().resume();
  member_.resume();
}

// What SlotHandover does with a DrainCourse.
void SimServer::begin_drain(std::uint32_t steps, base::TimeNs ends_ns) {
  cluster::ClusterMember& member = member_.member();
  course_.begin(member.config().weight_bytes, member.owns_nothing() ? 0 : steps, ends_ns);
  ++drains_;
  member.want_weight(course_.weight_bytes());
  look_at_drain();
}

void SimServer::cancel_drain() {
  course_.cancel();
  ++drains_;  // the next look is that of the cancel
  look_at_drain();
}

void SimServer::drop_departures() {
  if (departures_.slots() == 0) return;
  departures_.clear();
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) tell_shard(shard);
}

void SimServer::leave() {
  has_left_ = true;
  member_.member().drain();
}

bool SimServer::has_moved_all() const {
  return uses(member_.member().epoch()) && !is_moving();
}

bool SimServer::is_moving() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->is_moving(); });
}

void SimServer::look_at_drain() {
  if (has_left_) return;
  if (!paused()) {
    const cluster::DrainCourse::Seen seen{member_.member().weight_in_map(), has_moved_all()};
    switch (course_.look(network_.loop().now_ns(), seen)) {
      case cluster::DrainCourse::Next::wait:
        break;
      case cluster::DrainCourse::Next::drop_rest:
        drop_departures();
        [[fallthrough]];
      case cluster::DrainCourse::Next::want_less:
        member_.member().want_weight(course_.weight_bytes());
        break;
      case cluster::DrainCourse::Next::take_back:
        course_.forget();
        return member_.member().want_weight(member_.member().config().weight_bytes);
      case cluster::DrainCourse::Next::end:
        return;
    }
  }
  network_.loop().after(1 * kMs, [this, drain = drains_, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && drain == drains_ && course_.is_on()) look_at_drain();
  });
}

bool SimServer::uses(base::Epoch epoch) const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [&](const auto& shard) { return shard->epoch() == epoch; });
}

void SimServer::tell_shard(std::size_t shard) {
  network_.loop().after(
      dice_.skewed(1, 10 * kMs), [this, shard, alive = std::weak_ptr<int>(alive_)] {
        if (alive.expired()) return;
        if (paused()) return tell_shard(shard);
        // Whatever is the newest by now.
        const auto departures = departures_.of_shard(static_cast<std::uint16_t>(shard),
                                                     static_cast<std::uint16_t>(shards_.size()));
        const auto refills = refills_.of_shard(static_cast<std::uint16_t>(shard),
                                               static_cast<std::uint16_t>(shards_.size()));
        shards_[shard]->use_map(*member_.member().map(), member_.identity().incarnation,
                                departures.get(), refills.get());
      });
}

}  // namespace simm::sim
