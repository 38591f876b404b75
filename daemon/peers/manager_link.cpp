#include "daemon/peers/manager_link.h"

#include <utility>

namespace simm::control {

ManagerLink::ManagerLink(ClusterAccess& access, std::string address,
                         const cluster::MemberConfig& config, cluster::MemberEvents& events,
                         OnStatus on_status)
    : access_(access),
      on_status_(std::move(on_status)),
      member_(config, access.clock, *this, events),
      dialer_(access, {"cluster.manager", std::move(address), {}}, *this),
      timer_(access.io),
      soon_(access.io) {}

void ManagerLink::start() {
  dialer_.start();
}

void ManagerLink::drain() {
  member_.drain();
  turn();
}

void ManagerLink::want_weight(std::uint64_t weight_bytes) {
  member_.want_weight(weight_bytes);
  turn();
}

void ManagerLink::stop() {
  dialer_.stop();
  timer_.cancel();
  soon_.cancel();
  channel_.reset();
}

std::string ManagerLink::status() const {
  std::string text = cluster::link_state_name(member_.state());
  if (member_.state() != cluster::LinkState::joined && !trouble().empty()) text += ": " + trouble();
  return text;
}

// ---- the member's way out ----

void ManagerLink::send(std::span<const std::byte> message) {
  if (channel_ == nullptr) return;
  const Status sent = channel_->send(message);
  if (sent == Status::ok || sent == Status::invalid_state) return;  // closed: on_closed() will come
  // A manager that does not read. Not from in here: this is a call of the member's.
  access_.errors.record("cluster.manager", sent, "the connection to the manager takes no more");
  soon_.after(0, [this] { lose(); });
}

void ManagerLink::close(const std::string& why) {
  access_.errors.record("cluster.manager", Status::unreachable, why);
  soon_.cancel();
  channel_.reset();
  redial();
}

// With a manager all daemons have lost it. Those of the map are about as many.
void ManagerLink::redial() {
  const cluster::SlotMapPtr& map = member_.map();
  dialer_.redial(0, map == nullptr ? 0 : map->members().size());
}

void ManagerLink::lose() {
  soon_.cancel();
  channel_.reset();
  redial();
  member_.on_closed();
  turn();
}

// ---- what happens to the connection ----

void ManagerLink::on_dialled(ClusterDialer&, ipc::UniqueFd socket,
                             const cluster::HelloResult& result) {
  if (result.peer.role != cluster::ClusterRole::manager) {
    trouble_ = "cluster.manager: " + dialer_.address() + " is not a manager but a " +
               std::string(cluster::role_name(result.peer.role)) + " daemon, " + result.peer.name;
    access_.errors.record("cluster.manager", Status::invalid_argument, trouble_);
    log_state();
    return dialer_.redial();  // a person may correct what runs there
  }
  trouble_.clear();
  ClusterChannelEvents& events = *this;
  channel_ = std::make_unique<ClusterChannel>(access_, std::move(socket), result, events);
  member_.on_connected(result.features);
  turn();
}

void ManagerLink::on_dial_failed(ClusterDialer&, const Error& error) {
  trouble_ = error.context;
  log_state();
}

void ManagerLink::on_message(ClusterChannel&, std::span<const std::byte> payload) {
  member_.on_message(payload);
  turn();
}

void ManagerLink::on_closed(ClusterChannel&, const Error& cause) {
  trouble_ = cause.context;
  lose();
}

// ---- time ----

void ManagerLink::turn() {
  member_.do_work();
  log_state();
  const base::TimeNs next_ns = member_.next_deadline_ns();
  if (next_ns == base::kNoDeadline) return timer_.cancel();
  const base::TimeNs now_ns = access_.clock.now_ns();
  timer_.after(next_ns > now_ns ? next_ns - now_ns : 0, [this] { turn(); });
}

void ManagerLink::log_state() {
  const cluster::LinkState state = member_.state();
  if (logged_ == state || state == cluster::LinkState::joining) return;
  logged_ = state;
  if (on_status_) on_status_(status());
  if (state == cluster::LinkState::joined) {
    return access_.events.tell(base::EventKind::manager_joined, {{"manager", dialer_.address()}});
  }
  access_.events.tell(base::EventKind::manager_lost,
                      {{"manager", dialer_.address()}, {"why", trouble()}},
                      cluster::link_state_name(state));
}

}  // namespace simm::control
