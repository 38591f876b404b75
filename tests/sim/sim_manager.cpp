#include "tests/sim/sim_manager.h"

#include <utility>

namespace simm::sim {

SimManager::SimManager(ControlNetwork& network, Dice& dice, SimDisk& disk, Report& report,
                       const cluster::ManagerConfig& config)
    : network_(network),
      report_(report),
      clock_(network.loop(), dice),
      coordinator_(disk),
      random_(network.loop().now_ns()),
      manager_(config, clock_, random_, coordinator_, *this) {
  if (const Outcome started = manager_.start(); !started) {
    report.violation("live", "a manager does not start: %s", started.error().context.c_str());
  }
  network_.listen(this);
  turn();
}

SimManager::~SimManager() {
  network_.listen(nullptr);
  for (const auto& [id, link] : links_) network_.close_manager_end(link);
}

void SimManager::resume() {
  paused_ = false;
  turn();
}

void SimManager::arrive(std::function<void()> event) {
  inbox_.push_back(std::move(event));
  turn();
}

void SimManager::on_accepted(const ControlLinkPtr& link, const cluster::DaemonIdentity& identity) {
  links_[link->id] = link;
  arrive([this, link, identity] { manager_.on_connected(link->id, identity, link->version); });
}

void SimManager::on_message(const ControlLinkPtr& link, const std::vector<std::byte>& message) {
  arrive([this, link, message] { manager_.on_message(link->id, message); });
}

void SimManager::on_closed(const ControlLinkPtr& link) {
  arrive([this, link] {
    if (links_.erase(link->id) > 0) manager_.on_closed(link->id);
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

// Whatever all of a cluster are asked to do, nobody in it may be too old for.
void SimManager::check_version() {
  const std::uint16_t version = manager_.membership().version();
  for (const auto& [id, link] : links_) {
    if (manager_.membership().find(id) == nullptr || link->version >= version) continue;
    report_.violation("P7", "the cluster's version is %u, server or node %u speaks %u", version,
                      link->serial, link->version);
  }
}

void SimManager::turn() {
  if (paused_) return;
  while (!inbox_.empty()) {
    const auto event = std::exchange(inbox_.front(), {});
    inbox_.pop_front();
    event();
  }
  manager_.do_work();
  check_version();
  const base::TimeNs now_ns = network_.loop().now_ns();
  const base::TimeNs at_ns = std::max(clock_.loop_ns(manager_.next_deadline_ns()), now_ns + kUs);
  if (at_ns >= turn_ns_ && turn_ns_ > now_ns) return;
  turn_ns_ = at_ns;
  network_.loop().at(at_ns, [this, at_ns, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && turn_ns_ == at_ns) turn();
  });
}

}  // namespace simm::sim
