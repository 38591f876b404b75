// What goes wrong in a simulated cluster, and when.
#include "tests/sim/cluster.h"

namespace simm::sim {

void Cluster::start_faults() {
  repeat(scenario_.server_crash_every_ns, &Cluster::crash_some_server);
  repeat(scenario_.node_crash_every_ns, &Cluster::crash_some_node);
  repeat(scenario_.pause_every_ns, &Cluster::pause_some_server);
  repeat(scenario_.break_every_ns, &Cluster::break_some_path);
  repeat(scenario_.partition_every_ns, &Cluster::cut_some_link);
  repeat(scenario_.slow_every_ns, &Cluster::slow_down);
  repeat(scenario_.map_every_ns, &Cluster::change_map);
}

void Cluster::repeat(base::TimeNs every_ns, void (Cluster::*fault)()) {
  if (every_ns == 0) return;
  loop_.after(dice_.between(1, 2 * every_ns), [this, every_ns, fault] {
    if (!storming_ || !report_.clean()) return;
    (this->*fault)();
    repeat(every_ns, fault);
  });
}

void Cluster::crash_some_server() {
  const std::uint32_t server = dice_.between32(0, scenario_.servers - 1);
  if (servers_[server].shards.empty()) return;
  kill_server(server);
  loop_.after(dice_.skewed(1 * kMs, 500 * kMs), [this, server] {
    if (servers_[server].shards.empty()) start_server(server);
  });
}

void Cluster::crash_some_node() {
  const std::uint32_t node = dice_.between32(0, scenario_.nodes - 1);
  if (nodes_[node] == nullptr) return;
  kill_node(node);
  loop_.after(dice_.skewed(1 * kMs, 200 * kMs), [this, node] {
    if (nodes_[node] == nullptr) start_node(node);
  });
}

void Cluster::pause_some_server() {
  const std::uint32_t server = dice_.between32(0, scenario_.servers - 1);
  if (log_.on()) log_.line("server %u is paused", server + 1);
  for (const auto& shard : servers_[server].shards) shard->process().pause();
  loop_.after(dice_.between(1 * kMs, scenario_.pause_max_ns), [this, server] {
    if (log_.on()) log_.line("server %u goes on", server + 1);
    for (const auto& shard : servers_[server].shards) shard->process().resume();
  });
}

void Cluster::cut_some_link() {
  const std::uint32_t node = dice_.between32(0, scenario_.nodes - 1);
  const std::uint32_t peer = dice_.between32(1, scenario_.servers);
  if (log_.on()) log_.line("node %u and server %u are cut off from each other", node, peer);
  network_.set_black_hole(node, peer, true);
  loop_.after(dice_.skewed(1 * kMs, 500 * kMs), [this, node, peer] {
    if (log_.on()) log_.line("node %u and server %u reach each other", node, peer);
    network_.set_black_hole(node, peer, false);
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

// Servers first, and nodes only when all servers have switched: so two owners of one slot never
// serve at the same time.
void Cluster::change_map() {
  if (epoch_ != node_epoch_ || epoch_ == maps_.size()) return;
  ++epoch_;
  ++history_.disruptions;
  if (log_.on())
    log_.line("the map changes to epoch %llu", static_cast<unsigned long long>(epoch_));
  untold_ = scenario_.servers;
  for (std::uint32_t server = 0; server < scenario_.servers; ++server) {
    loop_.after(dice_.skewed(1, 10 * kMs), [this, server] { tell_server(server, epoch_); });
  }
}

void Cluster::tell_server(std::uint32_t server, base::Epoch epoch) {
  for (const auto& shard : servers_[server].shards) {
    if (shard->process().paused()) {
      return loop_.after(5 * kMs, [this, server, epoch] { tell_server(server, epoch); });
    }
  }
  // One that is dead gets the newest epoch when it starts.
  for (const auto& shard : servers_[server].shards) shard->use_map(*maps_[epoch - 1]);
  for (const auto& shard : servers_[server].shards) shard->process().wake();
  if (--untold_ == 0) tell_nodes(epoch);
}

void Cluster::tell_nodes(base::Epoch epoch) {
  node_epoch_ = epoch;
  ++history_.disruptions;
  for (std::uint32_t node = 0; node < scenario_.nodes; ++node) {
    // Whatever is the newest when it gets there: an older one never replaces it.
    loop_.after(dice_.skewed(1, 10 * kMs), [this, node] {
      if (nodes_[node] != nullptr) nodes_[node]->use_placement(*maps_[node_epoch_ - 1]);
    });
  }
}

}  // namespace simm::sim
