// Single faults, one after the other, that must not move a slot, or have to.
#include <algorithm>
#include <memory>

#include "tests/sim/cluster.h"

namespace simm::sim {

// Some daemons and the manager do not hear each other, for longer than the grace by any clock.
// Everybody else hears everybody.
bool Cluster::live_without_manager(const std::vector<Serial>& lonely, const char* who) {
  const base::Epoch before = maps_.newest();
  if (log_.on()) log_.line("the manager does not hear %s", who);
  for (const Serial serial : lonely) control_.cut(serial, true, true);
  if (!step(5 * scenario_.manager.membership.rejoin_grace_ns / 2 + 1 * kSecond)) return false;
  for (const Serial serial : lonely) control_.cut(serial, false, false);
  if (!step(2 * kSecond)) return false;
  if (maps_.newest() != before) {
    report_.violation("P8", "map %llu comes after map %llu because the manager did not hear %s",
                      static_cast<unsigned long long>(maps_.newest()),
                      static_cast<unsigned long long>(before), who);
  }
  check_unity();
  return report_.clean();
}

// A second daemon of a server's name asks for its place, and the manager hears nobody for a while.
bool Cluster::live_with_a_stranger(bool manager_dies) {
  const Serial holder = servers_[0]->serial();
  const base::Epoch before = maps_.newest();
  const auto pool =
      std::make_shared<KeptPool>(scenario_, member_config(cluster::ClusterRole::storage, 1));
  if (log_.on()) log_.line("a stranger has the name of server %u", holder);
  auto stranger =
      std::make_unique<SimServer>(scenario_, network_, control_, dice_, maps_, pool, 0, [] {});
  if (!step(500 * kMs)) return false;
  const std::size_t place = leading_place();
  // Who asks the stopped manager first may find the next one when its grace is over.
  const bool may_move = scenario_.etcd.is_used;
  std::vector<Serial> waiting;
  for (const auto& server : servers_) {
    if (may_move) waiting.push_back(server->serial());
  }
  for (const Serial serial : waiting) troubles_.begin(serial);
  if (manager_dies) {
    kill_manager(place);
  } else {
    managers_[place]->pause();
  }
  if (may_move && !manager_dies && !mislead_holder(place)) return false;
  // Longer than any member waits for an answer.
  if (!step(2 * kSecond)) return false;
  for (const Serial serial : waiting) troubles_.end(serial);
  if (manager_dies) {
    start_manager(place);
  } else {
    managers_[place]->resume();
  }
  if (!step(2 * kSecond)) return false;
  const bool is_replaced =
      servers_[0]->serial() != holder || maps_.is_in_since(before, stranger->serial());
  if (is_replaced || (!may_move && maps_.newest() != before)) {
    report_.violation("P8", "map %llu follows map %llu: a stranger took the place of server %u",
                      static_cast<unsigned long long>(maps_.newest()),
                      static_cast<unsigned long long>(before), holder);
  }
  network_.server_crashed(stranger->serial(), false);
  stranger.reset();
  check_unity();
  return report_.clean();
}

// The next manager leads, and just then the holder of the name asks the stopped one.
bool Cluster::mislead_holder(std::size_t stopped) {
  const base::TimeNs end_ns = loop_.now_ns() + 2 * kSecond;
  while ((!has_leader() || leading_place() == stopped) && loop_.now_ns() < end_ns) {
    if (!step(5 * kMs)) return false;
  }
  if (log_.on()) log_.line("the holder asks the stopped manager");
  control_.send_to(servers_[0]->serial(), stopped);
  return true;
}

// Another one leads soon, and no slot moves for that: unless daemons stay for a whole grace with
// the former one, which believes in its lease by a slow clock.
bool Cluster::live_with_a_leader_without_etcd() {
  const std::size_t place = leading_place();
  const Serial former = etcd_.leader();
  const base::Epoch before = maps_.newest();
  if (log_.on()) log_.line("manager %zu, which leads, does not reach etcd", place);
  managers_[place]->cut(true);
  const base::TimeNs end_ns = loop_.now_ns() + 4 * kSecond;
  while (etcd_.leader() == former && loop_.now_ns() < end_ns) {
    if (!step(5 * kMs)) return false;
  }
  const base::TimeNs lost_ns = loop_.now_ns();
  for (const auto& server : servers_) troubles_.begin(server->serial());
  while (managers_[place]->leads() && loop_.now_ns() < end_ns) {
    if (!step(5 * kMs)) return false;
  }
  const base::TimeNs believed_ns = loop_.now_ns() - lost_ns;
  for (const auto& server : servers_) troubles_.end(server->serial());
  if (!step(end_ns - loop_.now_ns())) return false;
  if (!has_leader() || leading_place() == place) {
    report_.violation("P8", "nobody leads in the place of manager %zu, which etcd does not hear",
                      place);
  }
  managers_[place]->cut(false);
  if (!step(2 * kSecond)) return false;
  // The next one's clock may run at twice the speed, and daemons have to find it.
  const bool may_move =
      believed_ns + kSecond / 2 >= scenario_.manager.membership.rejoin_grace_ns / 2;
  if (maps_.newest() != before && !may_move) {
    report_.violation("P8", "map %llu follows map %llu because another manager leads",
                      static_cast<unsigned long long>(maps_.newest()),
                      static_cast<unsigned long long>(before));
  }
  check_unity();
  return report_.clean();
}

// Another manager leads, and the former one, which may not know that yet, reaches etcd again.
void Cluster::lose_lease_of_leader() {
  const std::size_t place = leading_place();
  const Serial former = etcd_.leader();
  managers_[place]->cut(true);
  const base::TimeNs end_ns = loop_.now_ns() + 3 * kSecond;
  while ((etcd_.leader() == former || etcd_.leader() == 0) && loop_.now_ns() < end_ns) {
    if (!step(5 * kMs)) break;
  }
  managers_[place]->cut(false);
}

// Who drains loses its slots at once, who is dead after the grace. A manager that has lost its
// lease just then stores nothing.
bool Cluster::live_without_server(bool drains) {
  const Serial leaving = servers_[0]->serial();
  base::TimeNs wait_ns = 5 * scenario_.manager.membership.rejoin_grace_ns + 2 * kSecond;
  if (drains) {
    if (scenario_.etcd.is_used) lose_lease_of_leader();
    troubles_.give_up(leaving);
    servers_[0]->leave();
    wait_ns = scenario_.etcd.is_used ? 4 * kSecond : 500 * kMs;
  } else {
    kill_server(0);
  }
  if (!step(wait_ns)) return false;
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    if (maps_.owner(maps_.newest(), static_cast<base::Slot>(slot)) != leaving) continue;
    report_.violation("live", "server %u keeps slot %u, though it has gone", leaving, slot);
    return false;
  }
  if (drains) kill_server(0);
  start_server(0);
  if (!step(2 * kSecond)) return false;
  check_unity();
  return report_.clean();
}

// A server dies, bytes of its pool go wrong, and its next process has that pool: what is damaged is
// not read.
bool Cluster::live_with_a_damaged_pool() {
  if (!scenario_.keeps_pools || scenario_.damaged_percent == 0) return true;
  if (log_.on()) log_.line("bytes of the pool of server %u go wrong", servers_[0]->serial());
  SimClient& client = *clients_[0];
  const SweptPut pages{SweptPut{}.bytes, std::min(scenario_.frames, scenario_.keys)};
  if (!sweep(client, ipc::Opcode::put, 0, pages)) return false;
  end_server(*servers_[0], false);
  servers_[0].reset();
  pools_[0]->damage(pool_dice_);
  start_server(0);
  if (!step(2 * kSecond) || !sweep(client, ipc::Opcode::get, 0, pages)) return false;
  check_unity();
  return report_.clean();
}

// Between its Join and the manager's answer.
bool Cluster::begin_drain_while_joining(SimServer& server) {
  wishes_at_join_ = server.serial();
  control_.send_to(server.serial(), leading_place());
  const base::TimeNs end_ns = loop_.now_ns() + 2 * kSecond;
  while (wishes_at_join_ != 0 && loop_.now_ns() < end_ns) {
    if (!step(1 * kMs)) return false;
  }
  if (wishes_at_join_ != 0) {
    report_.violation("live", "server %u does not find the manager", server.serial());
  }
  return report_.clean();
}

// Who hands its slots over on request has none in the end, lives, and gets them back. The next
// manager hears of it too.
bool Cluster::live_with_a_hand_over(HandOver kind) {
  SimServer& server = *servers_[0];
  troubles_.give_up(server.serial());
  const std::size_t place = leading_place();
  const std::uint64_t whole_bytes = server.member().member().weight_in_map();
  if (kind != HandOver::while_joining) {
    server.begin_drain(3, base::kNoDeadline);
  } else if (!begin_drain_while_joining(server)) {
    return false;
  }
  bool manager_dies = kind == HandOver::manager_dies;
  const base::TimeNs end_ns = loop_.now_ns() + 20 * kSecond;
  while (server.drain_state() == cluster::DrainState::draining && loop_.now_ns() < end_ns) {
    if (!step(10 * kMs)) return false;
    if (manager_dies && server.member().member().weight_in_map() < whole_bytes) {
      manager_dies = false;
      kill_manager(place);
      loop_.after(100 * kMs, [this, place] { start_manager(place); });
    }
  }
  if (server.drain_state() != cluster::DrainState::drained ||
      !server.member().member().owns_nothing()) {
    report_.violation("live", "server %u does not come to the end of its drain", server.serial());
    return false;
  }
  server.cancel_drain();
  if (!step(2 * kSecond)) return false;
  check_unity();
  return report_.clean();
}

// Each scene in three of four runs: they cost a third of the time. A long grace costs many events,
// and shows nothing that a short one does not.
bool Cluster::calm() {
  Dice dice(scenario_.seed, 12);
  const auto is_left_out = [&dice] { return dice.percent(25); };
  for (const bool manager_dies : {false, true}) {
    // Names of another manager that has never heard their holders: rare enough as it is.
    const bool is_wanted = !is_left_out() || scenario_.etcd.is_used;
    if (is_wanted && !live_with_a_stranger(manager_dies)) return false;
  }
  if (scenario_.etcd.is_used && !live_with_a_leader_without_etcd()) return false;
  if (scenario_.shared_reads.has_immutable && !live_with_confirmed_copies()) return false;
  const bool node_dies = scenario_.rdma.is_used || (scenario_.tcp.is_used && aim_dice_.percent(30));
  if (node_dies && !live_with_a_dead_node()) return false;
  // Which of the two puts the server meets first is luck: it is tried often.
  const int puts_given_up = scenario_.rdma.stalls_per_mille > 0 ? 6 : 0;
  for (int i = 0; i < puts_given_up; ++i) {
    if (!live_with_a_put_given_up()) return false;
  }
  const bool move_is_late = scenario_.moves && scenario_.servers > 1 && aim_dice_.percent(55);
  if (move_is_late && !live_with_a_late_move()) return false;
  if (scenario_.reads_wait && scenario_.servers > 1 && !live_with_reads_in_a_move()) return false;
  const auto kind = static_cast<HandOver>(hand_over_dice_.between(0, 2));
  if (scenario_.hand_over_every_ns > 0 && !live_with_a_hand_over(kind)) return false;
  if (!is_left_out() && !live_without_server(true)) return false;
  if (scenario_.manager.membership.rejoin_grace_ns > 1 * kSecond) return true;
  const Serial reached = servers_[0]->serial();
  if (!is_left_out() && !live_without_manager({reached}, "a server that all nodes reach")) {
    return false;
  }
  const bool has_copies = scenario_.replicated && scenario_.servers > 1;
  if (has_copies && !live_with_single_copies()) return false;
  if (has_copies && !live_with_dead_owners()) return false;
  if (scenario_.servers > 1 && !is_left_out() && !live_without_server(false)) return false;
  if (scenario_.servers < 3 || is_left_out()) return true;
  std::vector<Serial> lonely;
  for (std::uint32_t i = 1; i < scenario_.servers; ++i) lonely.push_back(servers_[i]->serial());
  for (const auto& node : nodes_) lonely.push_back(node->member().serial());
  return live_without_manager(lonely, "anybody but one server");
}

}  // namespace simm::sim
