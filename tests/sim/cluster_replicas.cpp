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

std::uint64_t Cluster::dropped_for_room() const {
  std::uint64_t dropped = history_.not_moved();
  each_storage([&](const SimStorage& storage) {
    const store::StoreStats stats = storage.stats();
    dropped += stats.evicted + stats.quarantined + stats.refused_no_space;
  });
  return dropped;
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

// The second one dies when the owners of the slots of the first one have been given copies.
bool Cluster::live_with_dead_owners() {
  for (const auto& server : servers_) {
    if (version_of(server->serial()) == cluster::kHelloVersionMin) return true;
  }
  // A server that refuses more requests than it has room for says nothing of its objects.
  const bool has_room = scenario_.server.requests_max >= 8;
  if (!has_room || !are_mirrors_apart() || !are_told_apart()) return true;
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
