#include "tests/sim/control_network.h"

#include <algorithm>
#include <utility>

#include "tests/sim/old_release.h"
#include "tests/sim/sim_manager.h"
#include "tests/sim/sim_member.h"

namespace simm::sim {

base::TimeNs ControlNetwork::delay_ns() {
  return dice_.skewed(conditions_.delay_low_ns, conditions_.delay_high_ns + 2 * kMs);
}

// Daemons take the addresses in turn, each from another one on.
std::size_t ControlNetwork::next_place(Serial serial) {
  return (serial + dials_[serial]++) % managers_.size();
}

void ControlNetwork::dial(SimMember& member) {
  loop_.after(delay_ns(), [this, &member, alive = member.alive()] {
    if (alive.expired()) return;
    const Cut cut = cuts_[member.serial()];
    SimManager* const manager = managers_[next_place(member.serial())];
    if (manager == nullptr || cut.up || cut.down) return member.on_dialled(nullptr);
    auto link = std::make_shared<ControlLink>();
    link->id = ++ids_;
    link->serial = member.serial();
    link->version = version_of(member.serial());
    link->member = &member;
    link->manager = manager;
    links_.push_back(link);
    manager->on_accepted(link, member.identity());
    member.on_dialled(link);
    on_connected(link->serial, *manager);
  });
}

void ControlNetwork::arrive(const ControlLinkPtr& link, bool Cut::*direction,
                            std::function<void()> deliver) {
  if (!(cuts_[link->serial].*direction)) return deliver();
  link->held.emplace_back(
      [this, link, direction, deliver = std::move(deliver)] { arrive(link, direction, deliver); });
}

void ControlNetwork::go_up(const ControlLinkPtr& link, std::function<void()> deliver) {
  link->next_up_ns = std::max(link->next_up_ns + 1, loop_.now_ns() + delay_ns());
  loop_.at(link->next_up_ns,
           [this, link, deliver = std::move(deliver)] { arrive(link, &Cut::up, deliver); });
}

void ControlNetwork::go_down(const ControlLinkPtr& link, std::function<void()> deliver) {
  link->next_down_ns = std::max(link->next_down_ns + 1, loop_.now_ns() + delay_ns());
  loop_.at(link->next_down_ns,
           [this, link, deliver = std::move(deliver)] { arrive(link, &Cut::down, deliver); });
}

void ControlNetwork::send_up(const ControlLinkPtr& link, std::span<const std::byte> message) {
  go_up(link, [link, bytes = said_in(link->version, message)] {
    if (link->manager != nullptr) link->manager->on_message(link, bytes);
  });
}

void ControlNetwork::send_down(const ControlLinkPtr& link, std::span<const std::byte> message) {
  if (loses_delta()) {
    const auto said = cluster::decode_manager_message(message);
    if (std::holds_alternative<cluster::MapDelta>(said.value())) return;
  }
  go_down(link, [link, bytes = heard_in(link->version, message)] {
    if (link->member != nullptr) link->member->on_message(link, bytes);
  });
}

void ControlNetwork::close_member_end(const ControlLinkPtr& link) {
  link->member = nullptr;
  go_up(link, [link] {
    if (SimManager* manager = std::exchange(link->manager, nullptr)) manager->on_closed(link);
  });
}

void ControlNetwork::close_manager_end(const ControlLinkPtr& link) {
  link->manager = nullptr;
  go_down(link, [link] {
    if (SimMember* member = std::exchange(link->member, nullptr)) member->on_closed(link);
  });
}

void ControlNetwork::send_to(Serial serial, std::size_t place) {
  while ((serial + dials_[serial]) % managers_.size() != place) ++dials_[serial];
  for (const auto& weak : links_) {
    const ControlLinkPtr link = weak.lock();
    if (link == nullptr || link->serial != serial) continue;
    if (SimMember* member = std::exchange(link->member, nullptr)) member->on_closed(link);
    if (SimManager* manager = std::exchange(link->manager, nullptr)) manager->on_closed(link);
  }
}

void ControlNetwork::cut(Serial serial, bool up, bool down) {
  cuts_[serial] = {up, down};
  std::erase_if(links_, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : links_) {
    const ControlLinkPtr link = weak.lock();
    if (link == nullptr || link->serial != serial) continue;
    // Those whose direction is still cut are held again, in the same order.
    for (auto& action : std::exchange(link->held, {})) action();
  }
}

void ControlNetwork::heal_all() {
  for (const auto& [serial, ways] : std::map(cuts_)) cut(serial, false, false);
}

}  // namespace simm::sim
