#include "tests/sim/rdma_network.h"

#include <algorithm>

#include "tests/sim/rdma_node_part.h"

namespace simm::sim {
namespace {

// What waits for others is looked at less and less often.
constexpr std::uint32_t kHalvingsMax = 6;

}  // namespace

RdmaNetwork::RdmaNetwork(EventLoop& loop, Dice dice, const Conditions& conditions)
    : loop_(loop), dice_(dice), conditions_(conditions), fabric_(dice_.next()) {}

RdmaNetwork::~RdmaNetwork() {
  dead_.clear();
}

base::TimeNs RdmaNetwork::draw_notice_ns() {
  return dice_.skewed(conditions_.notice_low_ns, conditions_.notice_high_ns);
}

// ---- moments ----

void RdmaNetwork::kick() {
  if (devices_.empty() || std::exchange(is_scheduled_, true)) return;
  const base::TimeNs delay_ns = dice_.skewed(conditions_.delay_low_ns, conditions_.delay_high_ns);
  loop_.after(delay_ns << std::min(fruitless_, kHalvingsMax), [this] { step(); });
}

void RdmaNetwork::step() {
  is_scheduled_ = false;
  fruitless_ = fabric_.step() > 0 ? 0 : fruitless_ + 1;
  if (fabric_.is_busy()) return kick();
  fruitless_ = 0;
}

// ---- devices ----

SimRdmaDevice* RdmaNetwork::add_device(bool is_node, std::uint32_t number,
                                       std::unique_ptr<SimRdmaDevice>& owner) {
  owner = fabric_.make_device(device_config);
  const Device added{owner.get(), is_node, number};
  for (const Device& other : devices_) {
    if (other.is_node == is_node) continue;
    const Device& node = is_node ? added : other;
    const Device& server = is_node ? other : added;
    const auto found = cuts_.find({node.number, server.number});
    if (found != cuts_.end()) hold(node, server, found->second);
  }
  devices_.push_back(added);
  return owner.get();
}

void RdmaNetwork::forget(const SimRdmaDevice* device) {
  std::erase_if(devices_, [&](const Device& one) { return one.device == device; });
}

RdmaNetwork::Device* RdmaNetwork::some_device() {
  return devices_.empty() ? nullptr : &devices_[dice_.between(0, devices_.size() - 1)];
}

void RdmaNetwork::bury(std::unique_ptr<RdmaNodePart> dead, base::TimeNs after_ns,
                       std::function<void()> gone) {
  const std::uint64_t number = ++last_dead_;
  dead_[number] = std::move(dead);
  loop_.after(after_ns, [this, number, gone = std::move(gone)] {
    dead_.at(number)->end_queue_pairs();
    gone();
    loop_.after(1 * kSecond, [this, number] { dead_.erase(number); });
  });
}

// ---- links ----

std::uint64_t RdmaNetwork::begin_link(std::uint32_t node, transport::Route to) {
  links_[++last_link_] = {node, to};
  return last_link_;
}

void RdmaNetwork::end_link(std::uint64_t link) {
  if (links_.erase(link) > 0) on_link_end(link);
}

std::set<std::uint64_t> RdmaNetwork::links_of(std::uint32_t node, transport::Route to) const {
  std::set<std::uint64_t> all;
  for (const auto& [link, place] : links_) {
    if (place.node == node && place.to == to) all.insert(link);
  }
  return all;
}

// ---- faults ----

void RdmaNetwork::break_some() {
  if (const Device* const device = some_device()) {
    device->device->fail_some_queue_pair();
    kick();
  }
}

void RdmaNetwork::pull_some_cable() {
  if (const Device* const device = some_device()) pull_cable(*device->device);
}

void RdmaNetwork::pull_cable_of(std::uint32_t node) {
  std::vector<SimRdmaDevice*> all;
  for (const Device& one : devices_) {
    if (one.is_node && one.number == node) all.push_back(one.device);
  }
  if (!all.empty()) pull_cable(*all[dice_.between(0, all.size() - 1)]);
}

void RdmaNetwork::fail_all_of(std::uint32_t node) {
  for (const Device& one : devices_) {
    if (one.is_node && one.number == node) one.device->fail_all_queue_pairs();
  }
  kick();
}

void RdmaNetwork::pull_cable(SimRdmaDevice& device) {
  fabric_.cut(device);
  loop_.after(dice_.skewed(100 * kUs, 50 * kMs), [this, pulled = &device] {
    fabric_.join(*pulled);
    kick();
  });
}

// An engine asks for a fence when half of its grace is over: here it has the other half.
void RdmaNetwork::delay_some_fences() {
  Device* const device = some_device();
  if (device == nullptr || loop_.now_ns() < device->slow_again_ns) return;
  device->slow_again_ns = loop_.now_ns() + 200 * kMs;
  hold_fences(*device->device, dice_.between(1 * kMs, 40 * kMs));
}

void RdmaNetwork::delay_fences_of_server(std::uint32_t server, base::TimeNs for_ns) {
  for (const Device& one : devices_) {
    if (!one.is_node && one.number == server) hold_fences(*one.device, for_ns);
  }
}

void RdmaNetwork::hold_fences(SimRdmaDevice& slow, base::TimeNs for_ns) {
  slow.hold_fences(true);
  loop_.after(for_ns, [this, device = &slow] {
    const auto is_slow = [device](const Device& one) { return one.device == device; };
    if (std::any_of(devices_.begin(), devices_.end(), is_slow)) device->hold_fences(false);
  });
}

void RdmaNetwork::hold_some_way() {
  const Device* const from = some_device();
  const Device* const to = some_device();
  if (from == nullptr || !from->is_node || to->is_node) return;
  hold_for_a_while(*from->device, *to->device);
}

void RdmaNetwork::hold_back(const SimRdmaDevice& from) {
  for (const Device& to : devices_) {
    if (!to.is_node && dice_.percent(conditions_.late_percent)) hold_for_a_while(from, *to.device);
  }
}

void RdmaNetwork::hold_for_a_while(const SimRdmaDevice& from, const SimRdmaDevice& to) {
  fabric_.hold(from, to);
  const base::TimeNs for_ns =
      dice_.percent(50) ? dice_.skewed(1 * kMs, 50 * kMs) : dice_.between(50 * kMs, 500 * kMs);
  loop_.after(for_ns, [this, one = &from, other = &to] {
    fabric_.release(*one, *other);
    kick();
  });
}

void RdmaNetwork::hold(const Device& node, const Device& server, Cut cut) {
  const auto set = [this](const Device& from, const Device& to, bool is_held) {
    if (is_held) {
      fabric_.hold(*from.device, *to.device);
    } else {
      fabric_.release(*from.device, *to.device);
    }
  };
  set(node, server, cut.to_server);
  set(server, node, cut.to_node);
}

void RdmaNetwork::cut(std::uint32_t node, std::uint32_t peer, bool to_server, bool to_node) {
  cuts_[{node, peer}] = {to_server, to_node};
  for (const Device& one : devices_) {
    if (!one.is_node || one.number != node) continue;
    for (const Device& other : devices_) {
      if (!other.is_node && other.number == peer) hold(one, other, {to_server, to_node});
    }
  }
  kick();
}

void RdmaNetwork::heal_all() {
  for (const Device& one : devices_) {
    fabric_.join(*one.device);
    one.device->hold_fences(false);
  }
  kick();
}

}  // namespace simm::sim
