// A scene with objects that are kept twice: their owners die, one after the other.
#include <algorithm>

#include "daemon/base/replica.h"
#include "tests/sim/cluster.h"

namespace simm::sim {

// No daemon has both slots of a pair, so none of them takes both copies of anything with it.
bool Cluster::are_mirrors_apart() const {
  const base::Epoch newest = maps_.newest();
  for (std::uint32_t i = 0; i < base::kSlotCount / 2; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (maps_.owner(newest, slot) == maps_.owner(newest, base::mirror_of(slot))) return false;
  }
  return true;
}

std::uint64_t Cluster::lost_for_room() const {
  std::uint64_t lost = 0;
  each_storage([&](const SimStorage& storage) {
    const store::StoreStats stats = storage.stats();
    lost += stats.evicted + stats.quarantined + stats.refused_no_space;
  });
  return lost;
}

std::uint64_t Cluster::dropped_for_room() const {
  return history_.not_moved() + lost_for_room();
}

// Again and again. What is kept twice is a hit all the time.
bool Cluster::read_replicated(SimClient& client, SweptPut pages, base::TimeNs for_ns) {
  const base::TimeNs end_ns = loop_.now_ns() + for_ns;
  do {
    if (!sweep(client, ipc::Opcode::get, kImmutableNameSpace, pages)) return false;
    if (client.sweep_ok() < pages.pages) {
      report_.violation("P2", "%u of %u objects that are kept twice, one of whose owners has died",
                        client.sweep_ok(), pages.pages);
      return false;
    }
    if (!step(20 * kMs)) return false;
  } while (loop_.now_ns() < end_ns);
  return report_.clean();
}

// A server that refuses more requests than it has room for says nothing of its objects.
bool Cluster::can_tell_of_copies() const {
  const bool is_old = std::any_of(servers_.begin(), servers_.end(), [this](const auto& server) {
    return server != nullptr && version_of(server->serial()) == cluster::kHelloVersionMin;
  });
  return !is_old && scenario_.server.requests_max >= 8 && are_mirrors_apart() && are_told_apart();
}

// What this scene puts has two copies in the end, so the next owner that dies costs none of it.
bool Cluster::lose_another_owner(std::uint32_t place, SweptPut pages) {
  end_server(*servers_[place], false);
  servers_[place].reset();
  // How soon that is noticed is another promise.
  clients_[0]->sweep(ipc::Opcode::get, kImmutableNameSpace, pages);
  if (!step_until([&] { return clients_[0]->idle(); }, 3 * kSecond)) return false;
  const base::TimeNs grace_ns = scenario_.manager.membership.rejoin_grace_ns;
  if (!read_replicated(*clients_[0], pages, grace_ns / 4)) return false;
  start_server(place);
  return step(2 * kSecond);
}

// Objects are put while an owner is away. It comes back, as it was or with nothing, and is given
// copies. `is_removed`: all of it is, while the first copy is on its way.
bool Cluster::live_with_an_owner_away(bool is_removed) {
  SimClient& client = *clients_[0];
  const SweptPut pages{SweptPut{}.bytes, std::min(scenario_.frames, scenario_.keys)};
  if (!sweep(client, ipc::Opcode::remove, kImmutableNameSpace)) return false;
  const std::uint64_t lost = lost_for_room();
  end_server(*servers_[0], false);
  servers_[0].reset();
  if (!sweep(client, ipc::Opcode::put, kImmutableNameSpace, pages)) return false;
  const bool are_there = client.sweep_ok() == pages.pages;
  start_server(0);
  if (is_removed) return remove_with_a_copy_on_its_way();
  if (!step(3 * kSecond)) return false;
  check_unity();
  if (!are_there || lost_for_room() != lost || !can_tell_of_copies()) return report_.clean();
  if (!lose_another_owner(1, pages)) return false;
  check_unity();
  return report_.clean();
}

bool Cluster::remove_with_a_copy_on_its_way() {
  holds_next_move_ = true;
  if (!step_until([&] { return held_move_.has_value(); }, 2 * kSecond)) return false;
  holds_next_move_ = false;
  if (held_move_ && !remove_meanwhile()) return false;
  return step(1 * kSecond) && sweep(*clients_[0], ipc::Opcode::exists, kImmutableNameSpace);
}

// All but one have handed their slots over. What is put then has one copy, until others join. They
// do so one after the other: what moves twice at once may be lost. Then the first joiner dies, or
// whoever was alone.
bool Cluster::live_with_one_owner(std::uint32_t victim) {
  SimClient& client = *clients_[0];
  const SweptPut pages{SweptPut{}.bytes, std::min(scenario_.frames, scenario_.keys)};
  if (!sweep(client, ipc::Opcode::remove, kImmutableNameSpace)) return false;
  const std::uint64_t lost = lost_for_room();
  for (std::uint32_t place = 1; place < scenario_.servers; ++place) {
    troubles_.give_up(servers_[place]->serial());
    servers_[place]->leave();
    if (!step(500 * kMs)) return false;
    end_server(*servers_[place], true);
    servers_[place].reset();
  }
  if (!sweep(client, ipc::Opcode::put, kImmutableNameSpace, pages)) return false;
  const bool are_there = client.sweep_ok() == pages.pages;
  const std::uint32_t last = victim == 1 ? 1 : scenario_.servers - 1;
  for (std::uint32_t place = 1; place < scenario_.servers; ++place) {
    start_server(place);
    if (!step(2 * kSecond)) return false;
    const bool is_known = are_there && lost_for_room() == lost && can_tell_of_copies();
    if (place == last && is_known && !lose_another_owner(victim, pages)) return false;
  }
  check_unity();
  return report_.clean();
}

// Owners go and come, and who has single copies gives others.
bool Cluster::live_with_single_copies() {
  const bool is_refilled =
      scenario_.reads_wait && scenario_.manager.mirrors == cluster::Mirrors::apart;
  const auto has_copies = [&] { return is_refilled && can_tell_of_copies(); };
  for (const bool is_removed : {false, true}) {
    if (has_copies() && !live_with_an_owner_away(is_removed)) return false;
  }
  for (const std::uint32_t victim : {0u, 1u}) {
    if (has_copies() && !live_with_one_owner(victim)) return false;
  }
  return true;
}

// The second one dies when the owners of the slots of the first one have been given copies.
bool Cluster::live_with_dead_owners() {
  if (!can_tell_of_copies()) return true;
  SimClient& client = *clients_[0];
  const SweptPut pages{SweptPut{}.bytes, std::min(scenario_.frames, scenario_.keys)};
  const std::uint64_t dropped = dropped_for_room();
  if (!sweep(client, ipc::Opcode::put, kImmutableNameSpace, pages)) return false;
  if (client.sweep_ok() < pages.pages) return true;  // short of memory
  if (!sweep(client, ipc::Opcode::get, kImmutableNameSpace, pages)) return false;
  if (client.sweep_ok() < pages.pages) return true;
  for (const std::uint32_t place : {0u, 1u}) {
    if (dropped_for_room() != dropped) break;
    // Not in silence: how soon that is noticed is another promise.
    end_server(*servers_[place], false);
    servers_[place].reset();
    const std::uint64_t left = dropped_for_room();
    client.sweep(ipc::Opcode::get, kImmutableNameSpace, pages);
    if (!step_until([&] { return client.idle(); }, 3 * kSecond)) return false;
    // The next map may move a copy whose other one has died: who reads has to wait for that one.
    const base::TimeNs grace_ns = scenario_.manager.membership.rejoin_grace_ns;
    const base::TimeNs read_ns = scenario_.reads_wait ? 5 * grace_ns + 2 * kSecond : grace_ns / 4;
    if (dropped_for_room() == left && !read_replicated(client, pages, read_ns)) return false;
    if (dropped_for_room() != left || !scenario_.reads_wait || !are_mirrors_apart()) break;
    if (place == 0 && scenario_.servers < 3) break;
  }
  for (const std::uint32_t place : {0u, 1u}) {
    if (servers_[place] == nullptr) start_server(place);
  }
  if (!step(2 * kSecond)) return false;
  check_unity();
  return report_.clean();
}

}  // namespace simm::sim
