// Faults that wait for the moment at which they do most harm. At a time of their own they would
// nearly never meet it.
#include <algorithm>
#include <set>

#include "daemon/engine/page_hasher.h"
#include "tests/sim/cluster.h"
#include "tests/sim/sim_mover.h"

namespace simm::sim {
void Cluster::set_aims() {
  network_.on_posted = [this](const WireRequest& request) {
    if (request.header.opcode != ipc::Opcode::put) return;
    if (request.header.is_moved) return hold_a_move(request);
    crash_if_doomed(request.node, Doom::put_posted);
  };
  network_.on_sent = [this](const WireRequest& request) {
    if (request.header.opcode == ipc::Opcode::put) crash_with_last_words(request);
  };
  // Devices go on moving its bytes when it is dead.
  network_.on_queue_pair_move = [this](const WireRequest& request) {
    crash_if_doomed(request.node, Doom::bytes_move);
    stall_in_a_put(request);
  };
  network_.on_queue_pair_answer = [this](const WireRequest& request) {
    RdmaNetwork& rdma = network_.rdma();
    if (!storming_ || !rdma.dice().per_mille(scenario_.rdma.lost_answers_per_mille)) return;
    rdma.pull_cable_of(request.node);
  };
  control_.on_connected = [this](Serial serial, const SimManager& manager) {
    if (serial != wishes_at_join_ || !manager.leads()) return;
    wishes_at_join_ = 0;
    find_server(serial)->begin_drain(1, base::kNoDeadline);
  };
}

// ---- nodes ----

void Cluster::crash_some_node() {
  const std::uint32_t node = dice_.between32(0, scenario_.nodes - 1);
  if (nodes_[node] == nullptr) return;
  if (!scenario_.tcp.is_used) return crash_node(node);
  doomed_node_ = node;
  doom_ = Doom::put_posted;
  if (scenario_.rdma.is_used && aim_dice_.percent(60)) {
    doom_ = Doom::bytes_move;
  } else if (aim_dice_.percent(75)) {
    doom_ = Doom::put_sent;
  }
}

bool Cluster::is_doomed(std::uint32_t node, Doom moment) {
  if (doomed_node_ != node || doom_ != moment) return false;
  doomed_node_.reset();
  return true;
}

void Cluster::crash_if_doomed(std::uint32_t node, Doom moment) {
  if (!is_doomed(node, moment)) return;
  loop_.after(network_.sockets().dice().between(1 * kUs, 10 * kUs),
              [this, node] { crash_node(node); });
}

// Its bytes follow, and wait on their way. They arrive when it has a successor, and before anybody
// takes it for silent.
void Cluster::crash_with_last_words(const WireRequest& put) {
  const std::uint32_t node = put.node;
  if (!is_doomed(node, Doom::put_sent)) return;
  const Serial server = put.to.peer.value;
  // Not inside the call.
  loop_.after(1, [this, node, server] { network_.cut(node, server, true, false); });
  loop_.after(aim_dice_.between(10 * kUs, 50 * kUs), [this, node, server] {
    const base::TimeNs silence_ns = scenario_.tcp.responder.peer_silence_ns;
    SocketNetwork& sockets = network_.sockets();
    sockets.last_words_after_ns = aim_dice_.between(silence_ns / 4, silence_ns * 9 / 10);
    crash_node(node);
    sockets.last_words_after_ns = 0;
    network_.cut(node, server, false, false);
  });
}

// ---- puts ----

void Cluster::stall_in_a_put(const WireRequest& request) {
  const bool is_striped = std::any_of(
      request.pages.begin(), request.pages.end(), [this](const transport::PageRequest& page) {
        return page.slice.length > scenario_.rdma.requester.stripe_bytes_min;
      });
  if (request.header.opcode != ipc::Opcode::put || !is_striped) return;
  if (std::exchange(stalls_next_put_, false)) return stall_when_read(request.to.peer.value, 0);
  if (!storming_) return;
  if (network_.rdma().dice().per_mille(scenario_.rdma.stalls_per_mille)) {
    stall_when_read(request.to.peer.value, 0);
  }
}

// Between the last READ of a put and its digest. Its requester gives it up meanwhile, and may ask
// for another put, which waits at the server.
void Cluster::stall_when_read(Serial serial, std::uint64_t read_bytes) {
  if (!(storming_ || in_scene_)) return;
  RdmaNetwork& rdma = network_.rdma();
  const std::uint64_t now_bytes = rdma.read_bytes();
  if (read_bytes == 0 || now_bytes != read_bytes) {
    loop_.after(20 * kUs, [this, serial, now_bytes] { stall_when_read(serial, now_bytes); });
    return;
  }
  SimServer* const server = find_server(serial);
  if (server == nullptr || server->paused()) return;
  if (log_.on()) log_.line("server %u is paused in a put", serial);
  troubles_.begin(serial);
  server->pause();
  const base::TimeNs for_ns = in_scene_ ? 300 * kMs : rdma.dice().between(60 * kMs, 300 * kMs);
  rdma.delay_fences_of_server(serial, for_ns + 20 * kMs);
  if (in_scene_) {
    stalled_server_ = serial;
    return rdma.fail_all_of(0);
  }
  loop_.after(for_ns, [this, serial] { resume_server(serial); });
}

// ---- scenes ----

bool Cluster::step_until(const std::function<bool()>& is_over, base::TimeNs longest_ns) {
  const base::TimeNs end_ns = loop_.now_ns() + longest_ns;
  while (!is_over() && loop_.now_ns() < end_ns) {
    if (!step(200 * kUs)) return false;
  }
  return report_.clean();
}

// A node dies while a put or a get of its client is under way, and the client asks the next one.
// What the dead one has sent, or its devices do, comes later.
bool Cluster::live_with_a_dead_node() {
  SimClient& client = *clients_[0];
  const bool has_devices = scenario_.rdma.is_used;
  const SweptPut put{has_devices ? scenario_.frame_bytes : SweptPut{}.bytes, 1};
  if (!sweep(client, ipc::Opcode::put, 0, put)) return false;
  doomed_node_ = 0;
  doom_ = has_devices ? Doom::bytes_move : Doom::put_sent;
  in_scene_ = true;
  client.sweep(has_devices && aim_dice_.percent(50) ? ipc::Opcode::get : ipc::Opcode::put, 0, put);
  if (!step_until([&] { return nodes_[0] == nullptr || client.idle(); }, 3 * kSecond)) return false;
  in_scene_ = false;
  doomed_node_.reset();  // which had no link of that kind, and lives
  if (nodes_[0] == nullptr) start_node(0);
  const auto works = [&] { return nodes_[0]->epoch() != 0 && client.idle(); };
  if (!step_until(works, 2 * kSecond)) return false;
  if (!works()) report_.violation("live", "a node that was started again does not work");
  if (!sweep(client, ipc::Opcode::put, 0, put)) return false;
  if (!step(scenario_.tcp.responder.peer_silence_ns)) return false;
  return sweep(client, ipc::Opcode::get, 0);
}

// A server stops when it has read a striped put, and has not stored it yet. Its requester loses all
// rails and gives that up, and what its client puts next waits at the server when it goes on. The
// server's devices are slow to end the queue pairs of the first one.
bool Cluster::live_with_a_put_given_up() {
  SimClient& client = *clients_[0];
  in_scene_ = stalls_next_put_ = true;
  client.sweep(ipc::Opcode::put, 0, {scenario_.frame_bytes, 1});
  if (!step_until([&] { return client.idle(); }, 2 * kSecond)) return false;
  client.sweep(ipc::Opcode::put, 0);
  if (!step(1 * kMs)) return false;
  in_scene_ = stalls_next_put_ = false;
  resume_server(std::exchange(stalled_server_, 0));
  if (!step_until([&] { return client.idle(); }, 3 * kSecond)) return false;
  return step(100 * kMs) && sweep(client, ipc::Opcode::get, 0) && step(1 * kSecond);
}

void Cluster::hold_a_move(const WireRequest& moved) {
  if (!holds_next_move_ || (holds_what_ages_ && moved.header.ttl_ms == 0)) return;
  holds_next_move_ = false;
  const std::uint32_t name_space = moved.header.name_space == name_space_id(0) ? 0 : 1;
  held_move_ = {moved.node, moved.to.peer.value, moved.header.tenant, name_space};
  if (log_.on()) {
    log_.line("what server %u moves to server %u is held", SimMover::server_of(moved.node),
              held_move_->server);
  }
  network_.cut(moved.node, held_move_->server, true, false);
}

// An object follows its slot and arrives late. Meanwhile its key was removed, or its slot has gone
// on and has come back.
bool Cluster::live_with_a_late_move() {
  const std::uint32_t pages = std::min(scenario_.frames, scenario_.keys);
  for (const auto& client : clients_) {
    if (!sweep(*client, ipc::Opcode::put, 0, {SweptPut{}.bytes, pages})) return false;
  }
  SimServer& server = *servers_[0];
  troubles_.give_up(server.serial());
  holds_next_move_ = true;
  server.begin_drain(1, base::kNoDeadline);
  const auto is_over = [&] {
    return held_move_ || server.drain_state() != cluster::DrainState::draining;
  };
  if (!step_until(is_over, 2 * kSecond)) return false;
  holds_next_move_ = false;
  if (held_move_) {
    const bool is_short_of_memory = scenario_.server.arrival_keys_max < scenario_.keys;
    const bool removes = scenario_.servers < 3 || aim_dice_.percent(is_short_of_memory ? 80 : 20);
    if (!(removes ? remove_meanwhile() : give_and_take_back_meanwhile())) return false;
  }
  server.cancel_drain();
  if (!step(2 * kSecond)) return false;
  check_unity();
  return report_.clean();
}

// An object with a time to live follows its slot and arrives late. It is not seen when its time is
// over.
bool Cluster::live_with_a_move_that_ages() {
  Dice dice(scenario_.seed, 25);
  if (!scenario_.moves || servers_[0] == nullptr || !dice.percent(60)) return true;
  SimClient& client = *clients_[0];
  const base::TimeNs offer_ns = scenario_.mover.offer_ns;
  const base::TimeNs ttl_ns = 2 * offer_ns + scenario_.mover.grace_ns + 500 * kMs;
  SweptPut put{SweptPut{}.bytes, std::min(scenario_.frames, scenario_.keys)};
  put.ttl_ms = static_cast<std::uint32_t>(ttl_ns / kMs);
  if (!sweep(client, ipc::Opcode::remove, 0) || !sweep(client, ipc::Opcode::put, 0, put)) {
    return false;
  }
  const base::TimeNs ends_ns = loop_.now_ns() + ttl_ns;
  SimServer& server = *servers_[0];
  troubles_.give_up(server.serial());
  holds_next_move_ = holds_what_ages_ = true;
  server.begin_drain(1, base::kNoDeadline);
  const auto is_over = [&] {
    return held_move_ || server.drain_state() != cluster::DrainState::draining;
  };
  if (!step_until(is_over, 400 * kMs)) return false;
  holds_next_move_ = holds_what_ages_ = false;
  if (const auto held = std::exchange(held_move_, std::nullopt)) {
    const base::TimeNs held_ns = offer_ns * 3 / 4;
    if (!step(held_ns)) return false;
    network_.cut(held->node, held->server, false, false);
    while (loop_.now_ns() < ends_ns + held_ns) {
      if (!sweep(client, ipc::Opcode::exists, 0) || !step(2 * kMs)) return false;
    }
  }
  server.cancel_drain();
  if (!step(2 * kSecond)) return false;
  check_unity();
  return report_.clean();
}

bool Cluster::remove_meanwhile() {
  const HeldMove held = *std::exchange(held_move_, std::nullopt);
  const auto its = std::find_if(clients_.begin(), clients_.end(), [&](const auto& client) {
    return client->tenant() == held.tenant;
  });
  // Those of the other namespace fill its next owner's memory, where that is short.
  if (!sweep(**its, ipc::Opcode::remove, 1 - held.name_space)) return false;
  if (!sweep(**its, ipc::Opcode::remove, held.name_space)) return false;
  network_.cut(held.node, held.server, false, false);
  return step(20 * kMs) && sweep(**its, ipc::Opcode::exists, held.name_space);
}

bool Cluster::give_and_take_back_meanwhile() {
  const HeldMove held = *std::exchange(held_move_, std::nullopt);
  SimServer& next = *find_server(held.server);
  troubles_.give_up(held.server);
  next.begin_drain(1, base::kNoDeadline);
  const auto owns = [&] { return !next.member().member().owns_nothing(); };
  if (!step_until([&] { return !owns(); }, 1 * kSecond)) return false;
  next.cancel_drain();
  const auto has_them_back = [&] { return owns() && next.uses(next.member().member().epoch()); };
  if (!step_until(has_them_back, 1 * kSecond)) return false;
  network_.cut(held.node, held.server, false, false);
  return report_.clean();
}

// A new owner knows objects that are on their way by their hashes alone. Two of one hash are one
// object to it: what happens to one makes a miss of the other.
bool Cluster::are_told_apart() const {
  const engine::PageHasher hasher(scenario_.cluster_seed);
  std::set<base::KeyHash> hashes;
  for (KeyIndex key = 0; key < history_.key_count(); ++key) {
    const KeyName& name = history_.name(key);
    const engine::PageHasher::Scope scope = hasher.scope(name.tenant, name.name_space);
    if (!hashes.insert(engine::PageHasher::key_hash(scope, name.text)).second) return false;
  }
  return true;
}

// A server hands its slots over, all at once, and a client gets what was there again and again.
// With time and room that is always a hit.
bool Cluster::live_with_reads_in_a_move() {
  // Maps of the oldest version do not say what they follow: then nothing moves.
  for (const auto& server : servers_) {
    if (version_of(server->serial()) == cluster::kHelloVersionMin) return true;
  }
  SimClient& client = *clients_[0];
  const SweptPut pages{SweptPut{}.bytes, std::min(scenario_.frames, scenario_.keys)};
  if (!sweep(client, ipc::Opcode::put, 0, pages)) return false;
  if (!sweep(client, ipc::Opcode::get, 0, pages)) return false;
  if (client.sweep_ok() < pages.pages) return true;  // short of memory
  SimServer& server = *servers_[0];
  troubles_.give_up(server.serial());
  // In some runs bytes go wrong on their way, so that some are refused.
  const bool has_flips =
      !scenario_.tcp.is_used && !scenario_.keeps_pools && Dice(scenario_.seed, 20).percent(40);
  if (has_flips) network_.conditions.silent_flip_per_mille = 30;
  const std::uint64_t misses_before = history_.owner_misses();
  const std::uint64_t dropped_before = dropped_for_room();
  server.begin_drain(1, base::kNoDeadline);
  const base::TimeNs end_ns = loop_.now_ns() + 1 * kSecond;
  while (loop_.now_ns() < end_ns) {
    client.sweep(ipc::Opcode::get, 0, pages);
    if (!step_until([&] { return client.idle(); }, 3 * kSecond)) return false;
  }
  network_.conditions.silent_flip_per_mille = 0;
  const std::uint64_t misses = history_.owner_misses() - misses_before;
  if (log_.on())
    log_.line("%llu misses while objects move", static_cast<unsigned long long>(misses));
  // What a new owner has no room for is no hit, nor what it drops for that.
  const bool all_moved = !has_flips && dropped_for_room() == dropped_before;
  if (misses > 0 && all_moved && are_told_apart()) {
    report_.violation("P2", "%llu misses of objects that follow their slots",
                      static_cast<unsigned long long>(misses));
  }
  server.cancel_drain();
  if (!step(2 * kSecond)) return false;
  check_unity();
  return report_.clean();
}

}  // namespace simm::sim
