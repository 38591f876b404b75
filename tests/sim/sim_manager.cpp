#include "tests/sim/sim_manager.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster_codec.h"
#include "tests/sim/old_release.h"

namespace simm::sim {

SimManager::SimManager(const Place& place, Dice& dice, SimDisk& disk, Report& report,
                       const cluster::ManagerConfig& config)
    : network_(place.network),
      place_(place.place),
      report_(report),
      config_(config),
      clock_(network_.loop(), dice),
      file_(disk),
      random_(network_.loop().now_ns()) {
  if (const Outcome started = lead(*file_); !started) {
    report.violation("live", "a manager does not start: %s", started.error().context.c_str());
  }
  network_.listen(place_, this);
  turn();
}

SimManager::SimManager(const Place& place, Dice& dice, SimEtcd& etcd, Serial serial, Report& report,
                       const cluster::ManagerConfig& config)
    : network_(place.network),
      place_(place.place),
      report_(report),
      config_(config),
      clock_(network_.loop(), dice),
      candidate_(std::in_place, etcd, serial, clock_),
      random_(network_.loop().now_ns() + serial) {
  network_.listen(place_, this);
  turn();
}

SimManager::~SimManager() {
  network_.listen(place_, nullptr);
  for (const auto& [id, link] : links_) network_.close_manager_end(link);
}

void SimManager::resume() {
  paused_ = false;
  stale_since_ns_ = 0;
  turn();
}

void SimManager::cut(bool is_cut) {
  if (candidate_) candidate_->client().is_cut = is_cut;
}

// ---- the election ----

Outcome SimManager::lead(cluster::Coordinator& coordinator) {
  cluster::ManagerLinks& links = *this;
  auto manager = std::make_unique<cluster::Manager>(config_, clock_, random_, coordinator, links);
  if (Outcome started = manager->start(); !started) return started;
  manager_ = std::move(manager);
  made_ns_.clear();
  made_ = manager_->map();
  return Done{};
}

void SimManager::stand_by() {
  manager_.reset();
  for (const auto& [id, link] : std::exchange(links_, {})) refuse(link);
}

void SimManager::refuse(const ControlLinkPtr& link) {
  const auto message = cluster::encode(
      cluster::ManagerMessage(cluster::Refused{false, "another manager leads", true}));
  network_.send_down(link, message.value());
  network_.close_manager_end(link);
}

void SimManager::follow_election() {
  if (clock_.now_ns() >= look_ns_) look_ns_ = clock_.now_ns() + candidate_->step();
  if (!candidate_->leads()) {
    if (leads()) stand_by();
  } else if (!leads()) {
    // What can not be read now is read in a later turn.
    static_cast<void>(lead(*candidate_));
  }
  check_belief();
}

void SimManager::check_belief() {
  const base::TimeNs now_ns = network_.loop().now_ns();
  if (!leads() || candidate_->leads_in_etcd()) {
    stale_since_ns_ = 0;
  } else if (stale_since_ns_ == 0) {
    stale_since_ns_ = now_ns;
  } else if (now_ns - stale_since_ns_ > kBeliefMaxNs) {
    report_.violation("P8", "manager %u leads on, %llu us after it has lost its lease",
                      candidate_->manager(),
                      static_cast<unsigned long long>((now_ns - stale_since_ns_) / kUs));
  }
}

void SimManager::wait_for_etcd() {
  if (!candidate_) return;
  busy_until_ns_ = network_.loop().now_ns() + candidate_->client().take_waited_ns();
}

// ---- the network ----

void SimManager::arrive(std::function<void()> event) {
  inbox_.push_back(std::move(event));
  turn();
}

void SimManager::on_accepted(const ControlLinkPtr& link, const cluster::DaemonIdentity& identity) {
  links_[link->id] = link;
  arrive([this, link, identity] {
    if (links_.count(link->id) == 0) return;
    if (leads()) {
      return manager_->on_connected(link->id, identity, link->version, features_in(link->version));
    }
    links_.erase(link->id);
    refuse(link);
  });
}

void SimManager::on_message(const ControlLinkPtr& link, const std::vector<std::byte>& message) {
  arrive([this, link, message] {
    if (links_.count(link->id) > 0) manager_->on_message(link->id, message);
  });
}

void SimManager::on_closed(const ControlLinkPtr& link) {
  arrive([this, link] {
    if (links_.erase(link->id) > 0) manager_->on_closed(link->id);
  });
}

void SimManager::send(cluster::ConnectionId connection, std::span<const std::byte> message) {
  const auto found = links_.find(connection);
  if (found != links_.end()) network_.send_down(found->second, message);
}

void SimManager::close(cluster::ConnectionId connection, const std::string&) {
  const auto found = links_.find(connection);
  if (found == links_.end()) return;
  const ControlLinkPtr link = found->second;
  links_.erase(found);
  network_.close_manager_end(link);
}

// ---- turns ----

// Whatever all of a cluster are asked to do, nobody in it may be too old for.
void SimManager::check_version() {
  const std::uint16_t version = manager_->membership().version();
  for (const auto& [id, link] : links_) {
    if (manager_->membership().find(id) == nullptr || link->version >= version) continue;
    report_.violation("P7", "the cluster's version is %u, server or node %u speaks %u", version,
                      link->serial, link->version);
  }
}

// After a burst there is one map in each interval, on the average of all that followed each other.
void SimManager::check_pace() {
  if (manager_->map() == made_) return;
  made_ = manager_->map();
  made_ns_.push_back(clock_.now_ns());
  constexpr std::size_t kKept = 16;
  if (made_ns_.size() > kKept) made_ns_.pop_front();
  for (std::size_t i = 0; i + config_.map_burst < made_ns_.size(); ++i) {
    const std::size_t beyond = made_ns_.size() - i - config_.map_burst;
    const base::TimeNs took_ns = made_ns_.back() - made_ns_[i];
    if (took_ns >= beyond * config_.map_interval_ns) continue;
    return report_.violation("P8", "a manager makes %zu maps within %llu us", made_ns_.size() - i,
                             static_cast<unsigned long long>(took_ns / kUs));
  }
}

void SimManager::turn() {
  if (paused_) return;
  if (network_.loop().now_ns() < busy_until_ns_) return plan_turn();
  if (candidate_) follow_election();
  while (!inbox_.empty()) {
    const auto event = std::exchange(inbox_.front(), {});
    inbox_.pop_front();
    event();
  }
  if (leads()) {
    manager_->do_work();
    check_version();
    check_pace();
  }
  wait_for_etcd();
  plan_turn();
}

void SimManager::plan_turn() {
  base::TimeNs next_ns = leads() ? manager_->next_deadline_ns() : base::kNoDeadline;
  if (candidate_) next_ns = std::min(next_ns, look_ns_);
  const base::TimeNs now_ns = network_.loop().now_ns();
  const base::TimeNs at_ns = std::max({clock_.loop_ns(next_ns), now_ns + kUs, busy_until_ns_});
  if (at_ns >= turn_ns_ && turn_ns_ > now_ns) return;
  turn_ns_ = at_ns;
  network_.loop().at(at_ns, [this, at_ns, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && turn_ns_ == at_ns) turn();
  });
}

}  // namespace simm::sim
