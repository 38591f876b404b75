#include "daemon/peers/manager_service.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster_codec.h"
#include "simm/check.h"

namespace simm::control {
namespace {

// For the last words to a daemon that does not read.
constexpr base::TimeNs kLastWordsNs = base::kNsPerSecond;
constexpr base::TimeNs kSweepNs = 20 * base::kNsPerMs;

}  // namespace

ManagerService::ManagerService(ClusterAccess& access, const cluster::ManagerConfig& config,
                               cluster::Coordinator& coordinator)
    : access_(access),
      config_(config),
      coordinator_(coordinator),
      manager_(make_manager()),
      listener_(access, *this),
      readers_(access.io, [this] { turn(); }),
      timer_(access.io),
      sweep_(access.io),
      members_(access.clock, access.events),
      look_(access.io) {}

ManagerService::~ManagerService() = default;

std::unique_ptr<cluster::Manager> ManagerService::make_manager() {
  cluster::ManagerLinks& links = *this;
  return std::make_unique<cluster::Manager>(config_, access_.clock, access_.random, coordinator_,
                                            links);
}

Outcome ManagerService::listen(const std::string& address) {
  return listener_.listen("manager.listen", address);
}

Outcome ManagerService::lead() {
  auto manager = make_manager();
  if (Outcome started = manager->start(); !started) return started;
  manager_ = std::move(manager);
  leads_ = true;
  turn();
  watch();
  return Done{};
}

void ManagerService::stand_by(const std::string& why) {
  stands_by_ = why;
  if (!leads_) return;
  leads_ = false;
  timer_.cancel();
  look_.cancel();
  members_.forget();
  armed_ns_ = base::kNoDeadline;
  while (!connections_.empty()) {
    const cluster::ConnectionId id = connections_.begin()->first;
    refuse(id);
  }
  manager_ = make_manager();
  logged_epoch_ = 0;
}

// Not for ever: a daemon tries the managers that it knows in turn.
void ManagerService::refuse(cluster::ConnectionId id) {
  say_last(id, cluster::Refused{false, stands_by_, true});
}

void ManagerService::say_last(cluster::ConnectionId id, const cluster::ManagerMessage& message) {
  const auto said = cluster::encode(message);
  SIMM_CHECK(said.has_value());
  (void)connections_.at(id)->channel().send(*said);
  end(id);
}

void ManagerService::stop() {
  listener_.stop();
  timer_.cancel();
  sweep_.cancel();
  look_.cancel();
  connections_.clear();
  ending_.clear();
}

void ManagerService::on_accepted(ipc::UniqueFd socket, const cluster::HelloResult& result) {
  const bool wants_report = result.request.purpose == cluster::HelloPurpose::report;
  const bool may_join = result.request.purpose == cluster::HelloPurpose::control &&
                        result.peer.role != cluster::ClusterRole::manager;
  if (!wants_report && !may_join) {
    access_.errors.record("cluster.manager", Status::invalid_argument,
                          "a manager has no business with " + cluster::full_name(result.peer));
    return;
  }
  const cluster::ConnectionId id = next_id_++;
  connections_.emplace(id, std::make_unique<Connection>(*this, id, std::move(socket), result));
  if (wants_report) return say_last(id, cluster::Answer{0, Status::ok, report_()});
  if (!leads_) return refuse(id);
  manager_->on_connected(id, result.peer, result.version, result.features);
  turn();
}

void ManagerService::on_message(cluster::ConnectionId id, std::span<const std::byte> payload) {
  if (connections_.count(id) == 0) return;  // ending: nobody listens to it any more
  manager_->on_message(id, payload);        // its turn comes when all that is there has been read
}

void ManagerService::on_closed(cluster::ConnectionId id) {
  if (connections_.count(id) == 0) return;
  end(id);
  manager_->on_closed(id);
  turn();
}

// ---- the manager's way out ----

void ManagerService::send(cluster::ConnectionId connection, std::span<const std::byte> message) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  const Status sent = found->second->channel().send(message);
  if (sent == Status::ok || sent == Status::invalid_state) return;  // closed: on_closed() will come
  access_.errors.record("cluster.manager", sent,
                        found->second->channel().peer().name + " does not read what it is told");
  // Not from in here: this is a call of the manager's.
  boost::asio::post(access_.io, [this, connection, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) on_closed(connection);
  });
}

void ManagerService::close(cluster::ConnectionId connection, const std::string& why) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  access_.events.tell(
      base::EventKind::sent_away,
      {{"daemon", cluster::full_name(found->second->channel().peer())}, {"why", why}});
  end(connection);
}

// A connection ends later than it is given up: this may be one of its own callbacks.
void ManagerService::end(cluster::ConnectionId id) {
  const auto found = connections_.find(id);
  ending_.push_back({std::move(found->second), access_.clock.now_ns() + kLastWordsNs});
  connections_.erase(found);
  sweep_.after(0, [this] { sweep(); });
}

void ManagerService::sweep() {
  const base::TimeNs now_ns = access_.clock.now_ns();
  const auto is_over = [now_ns](const Ending& ending) {
    return ending.connection->channel().queued_bytes() == 0 || now_ns >= ending.until_ns;
  };
  ending_.erase(std::remove_if(ending_.begin(), ending_.end(), is_over), ending_.end());
  if (!ending_.empty()) sweep_.after(kSweepNs, [this] { sweep(); });
}

// ---- time ----

void ManagerService::turn() {
  if (!leads_) return;
  manager_->do_work();
  const cluster::SlotMapPtr& map = manager_->map();
  if (map != nullptr && map->epoch() != logged_epoch_) {
    logged_epoch_ = map->epoch();
    access_.events.tell(base::EventKind::map,
                        {{"epoch", map->epoch()}, {"members", map->members().size()}});
  }
  const base::TimeNs next_ns = manager_->next_deadline_ns();
  if (next_ns >= armed_ns_) return;
  armed_ns_ = next_ns;
  const base::TimeNs now_ns = access_.clock.now_ns();
  timer_.after(next_ns > now_ns ? next_ns - now_ns : 0, [this] { on_timer(); });
}

void ManagerService::watch() {
  members_.look(*manager_);
  look_.after(MemberWatch::kLookNs, [this] { watch(); });
}

void ManagerService::on_timer() {
  armed_ns_ = base::kNoDeadline;
  turn();
}

}  // namespace simm::control
