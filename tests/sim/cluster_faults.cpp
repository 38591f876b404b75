// What goes wrong in a simulated cluster, and when.
#include <algorithm>

#include "tests/sim/cluster.h"

namespace simm::sim {

void Cluster::start_faults() {
  repeat(scenario_.server_crash_every_ns, &Cluster::crash_some_server);
  repeat(scenario_.node_crash_every_ns, &Cluster::crash_some_node);
  repeat(scenario_.node_pause_every_ns, &Cluster::pause_some_node);
  repeat(scenario_.pause_every_ns, &Cluster::pause_some_server);
  repeat(scenario_.drain_every_ns, &Cluster::drain_some_server);
  repeat(scenario_.break_every_ns, &Cluster::break_some_path);
  repeat(scenario_.partition_every_ns, &Cluster::cut_some_link);
  repeat(scenario_.control_cut_every_ns, &Cluster::cut_some_control);
  repeat(scenario_.slow_every_ns, &Cluster::slow_down);
  repeat(scenario_.manager_crash_every_ns, &Cluster::crash_manager);
  repeat(scenario_.manager_pause_every_ns, &Cluster::pause_manager);
  repeat(scenario_.etcd.cut_every_ns, &Cluster::cut_some_manager);
  repeat(scenario_.etcd.down_every_ns, &Cluster::cut_all_managers);
  repeat(scenario_.rdma.cable_every_ns, &Cluster::pull_some_cable);
  repeat(scenario_.rdma.hold_every_ns, &Cluster::hold_some_way);
  repeat(scenario_.rdma.slow_fences_every_ns, &Cluster::delay_some_fences);
  repeat(scenario_.hand_over_every_ns, &Cluster::hand_over_some_server);
}

void Cluster::repeat(base::TimeNs every_ns, void (Cluster::*fault)()) {
  if (every_ns == 0) return;
  loop_.after(dice_.between(1, 2 * every_ns), [this, every_ns, fault] {
    if (!storming_ || !report_.clean()) return;
    (this->*fault)();
    repeat(every_ns, fault);
  });
}

// How long a daemon is away from the manager.
base::TimeNs Cluster::draw_absence(base::TimeNs longest_ns) {
  if (!dice_.percent(scenario_.too_long_percent)) return dice_.skewed(1 * kMs, longest_ns);
  return scenario_.manager.membership.rejoin_grace_ns * dice_.between(40, 300) / 100;
}

// ---- servers ----

void Cluster::crash_some_server() {
  const std::uint32_t server = dice_.between32(0, scenario_.servers - 1);
  if (servers_[server] == nullptr) return;
  kill_server(server);
  loop_.after(draw_absence(500 * kMs), [this, server] {
    if (servers_[server] == nullptr) start_server(server);
  });
}

void Cluster::pause_some_server() {
  const std::uint32_t server = dice_.between32(0, scenario_.servers - 1);
  if (servers_[server] == nullptr || servers_[server]->paused()) return;
  const Serial serial = servers_[server]->serial();
  if (log_.on()) log_.line("server %u is paused", serial);
  troubles_.begin(serial);
  servers_[server]->pause();
  if (dice_.percent(20)) return start_successor(server, serial);
  const bool too_long = dice_.percent(scenario_.too_long_percent);
  loop_.after(too_long ? draw_absence(scenario_.pause_max_ns)
                       : dice_.between(1 * kMs, scenario_.pause_max_ns),
              [this, serial] { resume_server(serial); });
}

void Cluster::resume_server(Serial serial) {
  SimServer* server = find_server(serial);
  if (server == nullptr || !server->paused()) return;
  if (log_.on()) log_.line("server %u goes on", serial);
  server->resume();
  troubles_.end(serial);
}

// As a supervisor does that takes a stopped process for dead. The old one wakes up later.
void Cluster::start_successor(std::uint32_t server, Serial paused) {
  const base::TimeNs silent_ns = 2 * scenario_.manager.membership.member_timeout_ns;
  loop_.after(dice_.between(1, silent_ns), [this, server, paused] {
    if (!storming_ || servers_[server] == nullptr || servers_[server]->serial() != paused) return;
    sleepers_.push_back(std::move(servers_[server]));
    pools_[server] = nullptr;
    start_server(server);
  });
  loop_.after(silent_ns + dice_.between(1 * kMs, 500 * kMs),
              [this, paused] { resume_server(paused); });
}

// The next one of the same server ends it.
void Cluster::hand_over_some_server() {
  Dice& dice = hand_over_dice_;
  const std::uint32_t at = dice.between32(0, scenario_.servers - 1);
  SimServer* const server = servers_[at].get();
  if (server == nullptr || server->paused() || server->has_left()) return;
  if (server->takes_back()) return;
  if (server->hands_over()) {
    if (log_.on()) log_.line("server %u ends its drain", server->serial());
    return server->cancel_drain();
  }
  if (log_.on()) log_.line("server %u drains on request", server->serial());
  troubles_.give_up(server->serial());
  const base::TimeNs ends_ns =
      dice.percent(30) ? loop_.now_ns() + dice.between(5, 150) * kMs : base::kNoDeadline;
  server->begin_drain(dice.between32(1, 4), ends_ns);
}

void Cluster::drain_some_server() {
  const std::uint32_t server = dice_.between32(0, scenario_.servers - 1);
  if (servers_[server] == nullptr || servers_[server]->paused()) return;
  const Serial serial = servers_[server]->serial();
  if (log_.on()) log_.line("server %u drains", serial);
  troubles_.give_up(serial);
  if (dice_.percent(50)) slow_down();  // then copies are under way when the slots move
  servers_[server]->leave();
  loop_.after(dice_.between(20, 200) * kMs, [this, server, serial] {
    if (!storming_ || servers_[server] == nullptr || servers_[server]->serial() != serial) return;
    const cluster::ClusterMember& member = servers_[server]->member().member();
    if (member.owns_nothing() && servers_[server]->uses(member.epoch())) {
      for (const auto& shard : servers_[server]->shards()) shard->check_dropped(report_);
    }
    kill_server(server);
    loop_.after(draw_absence(200 * kMs), [this, server] {
      if (servers_[server] != nullptr) return;
      if (dice_.percent(50)) slow_down();
      start_server(server);
    });
  });
}

// ---- nodes and the network ----

void Cluster::crash_node(std::uint32_t node) {
  if (nodes_[node] == nullptr || !(storming_ || in_scene_)) return;
  kill_node(node);
  if (in_scene_) return;
  loop_.after(dice_.skewed(1 * kMs, 200 * kMs), [this, node] {
    if (nodes_[node] == nullptr) start_node(node);
  });
}

// Also for longer than any deadline of its clients.
void Cluster::pause_some_node() {
  const std::uint32_t node = dice_.between32(0, scenario_.nodes - 1);
  if (nodes_[node] == nullptr || nodes_[node]->paused()) return;
  const Serial serial = nodes_[node]->member().serial();
  if (log_.on()) log_.line("node %u is paused", node);
  nodes_[node]->pause();
  loop_.after(dice_.skewed(1 * kMs, scenario_.pause_max_ns), [this, node, serial] {
    const bool is_there = nodes_[node] != nullptr && nodes_[node]->member().serial() == serial;
    if (!is_there || !nodes_[node]->paused()) return;
    if (log_.on()) log_.line("node %u goes on", node);
    nodes_[node]->resume();
  });
}

void Cluster::cut_some_link() {
  const std::uint32_t node = dice_.between32(0, scenario_.nodes - 1);
  const std::uint32_t server = dice_.between32(0, scenario_.servers - 1);
  if (servers_[server] == nullptr) return;
  const Serial serial = servers_[server]->serial();
  const std::uint64_t ways = dice_.between(1, 3);
  if (log_.on()) log_.line("node %u and server %u are cut off, ways %d", node, serial, int(ways));
  network_.cut(node, serial, (ways & 1) != 0, (ways & 2) != 0);
  loop_.after(dice_.skewed(1 * kMs, 500 * kMs), [this, node, serial] {
    if (log_.on()) log_.line("node %u and server %u reach each other", node, serial);
    network_.cut(node, serial, false, false);
  });
}

// Between a daemon and the manager; now and then it is a server that reaches nobody at all.
void Cluster::cut_some_control() {
  const std::uint32_t which = dice_.between32(0, scenario_.nodes + scenario_.servers - 1);
  const bool is_node = which < scenario_.nodes;
  const auto server = is_node ? 0 : which - scenario_.nodes;
  if (is_node ? nodes_[which] == nullptr : servers_[server] == nullptr) return;
  const Serial serial = is_node ? nodes_[which]->member().serial() : servers_[server]->serial();
  const std::uint64_t ways = dice_.between(1, 3);
  const bool from_all = !is_node && dice_.percent(30);
  if (log_.on()) {
    log_.line("daemon %u and the manager are cut off, ways %d%s", serial, int(ways),
              from_all ? ", and all nodes" : "");
  }
  const auto cut = [this, serial, from_all](bool one, bool other) {
    control_.cut(serial, one, other);
    for (std::uint32_t node = 0; from_all && node < scenario_.nodes; ++node) {
      network_.cut(node, serial, other, one);
    }
  };
  troubles_.begin(serial);
  cut((ways & 1) != 0, (ways & 2) != 0);
  loop_.after(draw_absence(500 * kMs), [this, serial, cut] {
    if (log_.on()) log_.line("daemon %u and the manager reach each other", serial);
    cut(false, false);
    troubles_.end(serial);
  });
}

void Cluster::slow_down() {
  if (slow_) return;
  slow_ = true;
  if (log_.on()) log_.line("the network is slow");
  network_.conditions.delay_high_ns = 20 * kMs;
  network_.conditions.step_low_ns = 1 * kMs;
  network_.conditions.step_high_ns = 40 * kMs;
  network_.conditions.step_bytes_low = 256;
  network_.conditions.step_bytes_high = 1024;
  loop_.after(dice_.between(1 * kMs, 60 * kMs), [this] {
    slow_ = false;
    network_.conditions = storming_ ? scenario_.conditions : Conditions{};
  });
}

// ---- the manager ----

std::size_t Cluster::draw_manager() {
  if (managers_.size() == 1) return 0;
  return dice_.percent(50) ? leading_place() : dice_.between(0, managers_.size() - 1);
}

void Cluster::crash_manager() {
  const std::size_t place = draw_manager();
  if (managers_[place] == nullptr) return;
  kill_manager(place);
  loop_.after(dice_.skewed(1 * kMs, 1 * kSecond), [this, place] {
    if (managers_[place] == nullptr) start_manager(place);
  });
}

// Also for longer than its lease.
void Cluster::pause_manager() {
  const std::size_t place = draw_manager();
  if (managers_[place] == nullptr) return;
  if (log_.on()) log_.line("manager %zu is paused", place);
  managers_[place]->pause();
  const base::TimeNs longest_ns = scenario_.etcd.is_used ? 3 * kSecond : 1 * kSecond;
  loop_.after(dice_.skewed(1 * kMs, longest_ns), [this, place] {
    if (log_.on()) log_.line("manager %zu goes on", place);
    if (managers_[place] != nullptr) managers_[place]->resume();
  });
}

void Cluster::cut_some_manager() {
  const std::size_t place = draw_manager();
  if (managers_[place] == nullptr) return;
  if (log_.on()) log_.line("manager %zu and etcd are cut off", place);
  managers_[place]->cut(true);
  loop_.after(dice_.skewed(1 * kMs, 3 * kSecond), [this, place] {
    if (log_.on()) log_.line("manager %zu and etcd reach each other", place);
    if (managers_[place] != nullptr) managers_[place]->cut(false);
  });
}

// Most of etcd's members are down.
void Cluster::cut_all_managers() {
  if (log_.on()) log_.line("etcd has no leader");
  const auto cut = [this](bool is_cut) {
    for (const auto& manager : managers_) {
      if (manager != nullptr) manager->cut(is_cut);
    }
  };
  cut(true);
  loop_.after(dice_.skewed(1 * kMs, 2 * kSecond), [this, cut] {
    if (log_.on()) log_.line("etcd has a leader");
    cut(false);
  });
}

}  // namespace simm::sim
