#include "tests/sim/sim_member.h"

#include <utility>

namespace simm::sim {

SimMember::SimMember(ControlNetwork& network, Dice& dice, MapBook& maps, Report& report,
                     const cluster::MemberConfig& config, Hooks hooks)
    : network_(network),
      dice_(dice),
      maps_(maps),
      report_(report),
      clock_(network.loop(), dice),
      hooks_(std::move(hooks)),
      member_(config, clock_, *this, *this) {
  network_.dial(*this);
}

SimMember::~SimMember() {
  if (link_ != nullptr) network_.close_member_end(link_);
}

void SimMember::die_silently() {
  if (link_ != nullptr) link_->member = nullptr;
  link_ = nullptr;
  paused_ = true;
}

void SimMember::resume() {
  paused_ = false;
  turn();
}

// ---- the network ----

void SimMember::arrive(std::function<void()> event) {
  inbox_.push_back(std::move(event));
  turn();
}

void SimMember::on_dialled(const ControlLinkPtr& link) {
  if (link == nullptr) return redial();
  link_ = link;
  arrive([this] { member_.on_connected(); });
}

void SimMember::on_message(const ControlLinkPtr& link, const std::vector<std::byte>& message) {
  arrive([this, link, message] {
    if (link == link_) member_.on_message(message);
  });
}

void SimMember::on_closed(const ControlLinkPtr& link) {
  arrive([this, link] {
    if (link != link_) return;
    link_ = nullptr;
    member_.on_closed();
    redial();
  });
}

void SimMember::redial() {
  network_.loop().after(dice_.between(1, 40) * kMs, [this, alive = this->alive()] {
    if (!alive.expired() && link_ == nullptr) network_.dial(*this);
  });
}

void SimMember::send(std::span<const std::byte> message) {
  if (link_ != nullptr) network_.send_up(link_, message);
}

void SimMember::close(const std::string&) {
  if (link_ == nullptr) return;
  network_.close_member_end(std::exchange(link_, nullptr));
  if (member_.state() != cluster::LinkState::expelled) redial();
}

// ---- the member ----

void SimMember::on_map(const cluster::SlotMapPtr& map, const cluster::SlotMapPtr& before) {
  if (before != nullptr && map->epoch() <= before->epoch()) {
    report_.violation("P7", "a daemon goes from epoch %llu to %llu",
                      static_cast<unsigned long long>(before->epoch()),
                      static_cast<unsigned long long>(map->epoch()));
  }
  maps_.on_used(*map);
  hooks_.on_map(map);
}

cluster::Heartbeat SimMember::load() {
  cluster::Heartbeat heartbeat;
  if (hooks_.reached && member_.map() != nullptr)
    heartbeat.reached = hooks_.reached(*member_.map());
  heartbeat.recovering = hooks_.recovers && hooks_.recovers();
  return heartbeat;
}

void SimMember::on_expelled(const std::string&) {
  hooks_.on_expelled();
}

void SimMember::turn() {
  if (paused_) return;
  while (!inbox_.empty()) {
    const auto event = std::exchange(inbox_.front(), {});
    inbox_.pop_front();
    event();
  }
  member_.do_work();
  const base::TimeNs deadline_ns = member_.next_deadline_ns();
  if (deadline_ns == base::kNoDeadline) return;
  const base::TimeNs at_ns = std::max(clock_.loop_ns(deadline_ns), network_.loop().now_ns() + kUs);
  if (at_ns >= turn_ns_ && turn_ns_ > network_.loop().now_ns()) return;
  turn_ns_ = at_ns;
  network_.loop().at(at_ns, [this, at_ns, alive = this->alive()] {
    if (!alive.expired() && turn_ns_ == at_ns) turn();
  });
}

}  // namespace simm::sim
