#include "tests/sim/scenario.h"

#include <algorithm>

#include "daemon/transport/payload_progress.h"
#include "tests/sim/dice.h"

namespace simm::sim {
namespace {

// More than there are at one time: two rails, four servers of two shards, and their successors.
constexpr std::uint32_t kQueuePairsOfNode = 48;
constexpr std::uint32_t kQueuePairsOfShard = 32;

void draw_limits(Scenario& s, Dice& dice) {
  s.arena_bytes = dice.percent(50) ? 32 * 1024 : dice.between(8, 256) * 1024;
  s.store.objects_max = dice.percent(20) ? 12 : 128;
  s.store.tenants_max = 8;
  s.store.lease_default_ns = dice.between(20, 2'000) * kMs;
  s.store.lease_budget_percent = dice.percent(50) ? 100 : dice.between32(10, 80);
  for (std::uint32_t tenant = 1; tenant < s.tenants; ++tenant) {
    if (dice.percent(50)) continue;
    const std::uint64_t bytes = std::max<std::uint64_t>(s.arena_bytes / 4, s.frame_bytes + 64);
    s.store.quotas.push_back({tenant_id(tenant), bytes});
  }
  s.engine.operations = dice.percent(30) ? 2 : 16;
  s.engine.requests = dice.percent(30) ? 3 : 64;
  s.engine.pages_per_request_max = dice.percent(30) ? 2 : 64;
  s.engine.posts_per_turn = dice.percent(30) ? 1 : 16;
  s.server.requests_max = dice.percent(20) ? 2 : 64;
  s.server.verify = base::VerifyMode::always;
  s.server.request_moves_max = dice.percent(30) ? 1 : 8;
  s.server.moves_max = dice.percent(30) ? 2 : 64;
  s.server.quantum_bytes = dice.percent(30) ? 256 : 64 * 1024;
  s.tenant_operations_max = dice.percent(30) ? 1 : 8;
  s.tenant_bytes_max = dice.percent(30) ? 4096 : 1 << 20;
}

void draw_network(Conditions& c, Dice& dice) {
  c.delay_high_ns = dice.percent(30) ? 2 * kMs : 30 * kUs;
  c.step_high_ns = dice.percent(50) ? 1 * kMs : 20 * kUs;
  c.step_bytes_high = dice.percent(50) ? 256 : 4096;
  c.credits = dice.percent(30) ? dice.between32(1, 3) : 16;
  if (dice.percent(30)) c.break_per_mille = dice.between32(1, 10);
  if (dice.percent(30)) c.corrupt_per_mille = dice.between32(1, 20);
  if (dice.percent(40)) c.silent_flip_per_mille = dice.between32(5, 50);
}

void draw_manager(cluster::ManagerConfig& m, Dice& dice) {
  m.heartbeat_ns = dice.between(20, 50) * kMs;
  m.membership.member_timeout_ns = dice.between(4, 8) * m.heartbeat_ns;
  m.membership.rejoin_grace_ns =
      dice.percent(60) ? dice.between(300, 800) * kMs : dice.between(1, 4) * kSecond;
  m.membership.redial_ns = 200 * kMs;
  m.join_timeout_ns = 1 * kSecond;
  m.settle_ns = dice.between(1, 20) * kMs;
  m.first_map_wait_ns = dice.between(20, 100) * kMs;
  m.push_retry_ns = dice.between(20, 200) * kMs;
  m.store_retry_ns = dice.between(10, 50) * kMs;
}

void draw_faults(Scenario& s, Dice& dice) {
  const auto sometimes = [&](std::uint64_t percent, base::TimeNs low, base::TimeNs high) {
    return dice.percent(percent) ? dice.between(low, high) : 0;
  };
  s.server_crash_every_ns = sometimes(30, 200 * kMs, 2 * kSecond);
  s.node_crash_every_ns = sometimes(25, 200 * kMs, 2 * kSecond);
  s.pause_every_ns = sometimes(60, 20 * kMs, 300 * kMs);
  s.pause_max_ns = dice.between(1, 400) * kMs;
  s.break_every_ns = sometimes(40, 10 * kMs, 300 * kMs);
  s.partition_every_ns = sometimes(40, 20 * kMs, 500 * kMs);
  s.slow_every_ns = sometimes(60, 10 * kMs, 100 * kMs);
  s.drain_every_ns = sometimes(50, 30 * kMs, 400 * kMs);
  s.manager_crash_every_ns = sometimes(25, 200 * kMs, 2 * kSecond);
  s.manager_pause_every_ns = sometimes(20, 200 * kMs, 2 * kSecond);
  s.control_cut_every_ns = sometimes(30, 100 * kMs, 1 * kSecond);
  s.disk_failure_percent = dice.percent(25) ? dice.between32(5, 50) : 0;
  s.too_long_percent = dice.percent(50) ? dice.between32(10, 50) : 0;
}

// From a row of its own, so that the scenarios of all seeds stay what they were.
void draw_releases(Scenario& s) {
  Dice dice(s.seed, 7);
  s.old_release_percent = dice.percent(50) ? 0 : dice.between32(2, 40);
  s.manager.membership.version_settle_ns = dice.between(50, 500) * kMs;
}

// Likewise: in half of the runs no map waits for those who come later.
void draw_settling(Scenario& s) {
  Dice dice(s.seed, 24);
  s.manager.settle_ns_max = s.manager.settle_ns * (dice.percent(50) ? 1 : dice.between(2, 20));
}

// Likewise.
void draw_node_pauses(Scenario& s) {
  Dice dice(s.seed, 8);
  if (dice.percent(30)) s.node_pause_every_ns = dice.between(50 * kMs, 1 * kSecond);
}

// Likewise: those that are drawn run the production transport over TCP.
void draw_tcp(Scenario& s) {
  Dice dice(s.seed, 9);
  TcpScenario& tcp = s.tcp;
  tcp.is_used = dice.percent(50);
  if (!tcp.is_used) return;
  tcp.links_per_shard = dice.between32(1, 3);
  tcp.buffer_bytes = dice.percent(50) ? 64 * 1024 : dice.between(256, 8 * 1024);
  tcp.requester.credits = tcp.responder.credits = s.conditions.credits;
  tcp.requester.peer_detection_ns = dice.between(30, 300) * kMs;
  tcp.responder.peer_silence_ns = transport::silence_after(tcp.requester.peer_detection_ns);
  tcp.requester.inline_page_bytes = dice.percent(50) ? 16 * 1024 : dice.between(0, 2048);
  if (dice.percent(50)) s.conditions.loss_per_mille = dice.between32(1, 30);
  s.conditions.late_percent = dice.between32(0, 100);
  if (dice.percent(30)) s.conditions.forge_per_mille = dice.between32(1, 20);
  if (dice.percent(40)) s.node_crash_every_ns = dice.between(50 * kMs, 500 * kMs);
  // Where servers fetch the bytes of puts, so that these are often the damaged ones.
  const bool are_pulled = tcp.requester.inline_page_bytes < 2048;
  if (are_pulled && dice.percent(40)) s.conditions.corrupt_per_mille = dice.between32(20, 60);
}

// Pages that are cut into stripes: few of them.
void draw_stripes(Scenario& s, Dice& dice) {
  s.rdma.device.mtu_bytes = 4096;
  s.rdma.requester.stripe_bytes_min = 64 * 1024;
  s.rdma.responder.stripe_digest_bytes = dice.between(256, 2048);
  s.rdma.stalls_per_mille = dice.between32(300, 1000);
  s.frame_bytes = 160 * 1024;
  s.batch_pages_max = dice.between32(1, 2);
  s.frames = 4 * s.batch_pages_max;
  s.batches = std::min(s.batches, 60u);
  s.keys = dice.between32(2, 8);
  s.arena_bytes = 1 << 20;
  for (store::TenantQuota& quota : s.store.quotas) quota.bytes = s.arena_bytes / 2;
  s.tenant_bytes_max = 4 << 20;
  s.tcp.buffer_bytes = 64 * 1024;
}

// Likewise: of these runs those that are drawn use the production transport over RDMA beside it.
void draw_rdma(Scenario& s) {
  Dice dice(s.seed, 10);
  RdmaScenario& rdma = s.rdma;
  rdma.is_used = s.tcp.is_used && dice.percent(40);
  if (!rdma.is_used) return;
  rdma.device.mtu_bytes = 256;  // pages are short here, and shall come in many pieces
  if (dice.percent(70)) rdma.device.fence_percent = dice.between32(10, 60);
  rdma.rails = static_cast<std::uint16_t>(dice.between(1, 2));
  rdma.requester.links_max = kQueuePairsOfNode;
  rdma.responder.links_max = kQueuePairsOfShard;
  rdma.requester.credits = rdma.responder.credits = s.conditions.credits;
  rdma.requester.peer_detection_ns = s.tcp.requester.peer_detection_ns;
  rdma.responder.peer_silence_ns = s.tcp.responder.peer_silence_ns;
  rdma.requester.inline_page_bytes = rdma.responder.inline_page_bytes =
      dice.percent(40) ? 4096 : dice.between(0, 256);
  if (dice.percent(50)) rdma.cable_every_ns = dice.between(20 * kMs, 500 * kMs);
  if (rdma.rails > 1 && dice.percent(40)) draw_stripes(s, dice);
  if (dice.percent(50)) rdma.lost_answers_per_mille = dice.between32(5, 50);
  if (dice.percent(70)) rdma.hold_every_ns = dice.between(5 * kMs, 100 * kMs);
  if (dice.percent(50)) rdma.slow_fences_every_ns = dice.between(20 * kMs, 500 * kMs);
}

// Likewise. Managers die and stop more often then, because others lead.
void draw_etcd(Scenario& s) {
  Dice dice(s.seed, 11);
  EtcdScenario& etcd = s.etcd;
  etcd.is_used = dice.percent(20);
  if (!etcd.is_used) return;
  etcd.managers = dice.between32(2, 3);
  // A daemon that asks a stopped manager first finds the next one later, by clocks that differ.
  s.manager.membership.redial_ns = 1'500 * kMs;
  if (dice.percent(70)) etcd.doubtful_per_mille = dice.between32(5, 500);
  if (dice.percent(50)) etcd.cut_every_ns = dice.between(200 * kMs, 2 * kSecond);
  if (dice.percent(30)) etcd.down_every_ns = dice.between(500 * kMs, 3 * kSecond);
  if (dice.percent(50)) s.manager_crash_every_ns = dice.between(200 * kMs, 2 * kSecond);
  if (dice.percent(50)) s.manager_pause_every_ns = dice.between(200 * kMs, 2 * kSecond);
}

// Likewise.
void draw_deltas(Scenario& s) {
  Dice dice(s.seed, 12);
  s.lost_deltas_percent = dice.percent(50) ? dice.between32(5, 60) : 0;
}

// Likewise: in half of all runs. Memory for what was written is short in some of them.
void draw_moves(Scenario& s) {
  Dice dice(s.seed, 13);
  s.moves = dice.percent(50);
  if (!s.moves) return;
  s.server.arrival_window_ns = dice.between(50, 800) * kMs;
  s.server.arrival_keys_max = dice.percent(40) ? 2 : 1024;
  s.mover.window_ns = dice.between(50, 800) * kMs;
  if (dice.percent(70)) s.drain_every_ns = dice.between(20, 150) * kMs;
  s.mover.bytes_per_s = dice.percent(40) ? 1 << 30 : dice.between(20, 1'000) * 1'000;
  s.mover.offer_ns = dice.between(10, 300) * kMs;
  s.mover.pause_min_ns = dice.between(1, 20) * kMs;
  s.mover.vain_rounds_max = dice.between32(1, 10);
  s.mover.records_per_turn = dice.percent(50) ? 256 : 3;
  s.mover.batch_bytes_max = dice.percent(50) ? 4'096 : 1 << 20;
}

// Likewise: reads that wait for objects on their way. Half of the runs have the time for that.
void draw_tells(Scenario& s) {
  s.server.expected_objects_max = 256;
  if (!s.moves) return;
  Dice dice(s.seed, 19);
  s.mover.teller.tell_ns = s.mover.offer_ns;
  s.mover.teller.pause_ns = s.mover.pause_min_ns;
  s.mover.teller.records_per_turn = s.mover.records_per_turn;
  const bool is_short = dice.percent(50);
  if (is_short) s.server.expected_objects_max = 2;
  const auto wait_ns = [&] { return is_short ? dice.between(1, 50) * kMs : 400 * kMs; };
  s.server.told_wait_ns = wait_ns();
  s.server.arrival_wait_ns = wait_ns();
  s.server.want_ns = wait_ns();
  s.server.silent_ns = dice.between(1, 100) * kMs;
  s.reads_wait = !is_short && s.server.arrival_keys_max > s.keys && s.conditions.credits > 1;
  if (is_short) return;
  s.server.arrival_window_ns = s.mover.window_ns = 2 * kSecond;
}

void give_time_to_moves(Scenario& s) {
  s.server.arrival_keys_max = s.server.expected_objects_max = 1024;
  s.server.told_wait_ns = s.server.arrival_wait_ns = s.server.want_ns = 400 * kMs;
  s.server.arrival_window_ns = s.mover.window_ns = 2 * kSecond;
  s.reads_wait = s.conditions.credits > 1;
}

// Likewise. Damage is to be found because nobody has looked at an object in this life, not by luck.
void keep_pools(Scenario& s) {
  s.keeps_pools = true;
  if (!s.tcp.is_used) s.conditions.silent_flip_per_mille = 0;
  s.server.verify = base::VerifyMode::never;
}
void draw_kept_pools(Scenario& s) {
  Dice dice(s.seed, 16);
  if (s.rdma.is_used || !dice.percent(30)) return;
  keep_pools(s);
  if (dice.percent(80)) s.server_crash_every_ns = dice.between(50, 500) * kMs;
  s.damaged_percent = dice.percent(50) ? dice.between32(10, 100) : 0;
}

// Likewise: in a quarter of all runs.
void draw_hand_overs(Scenario& s) {
  Dice dice(s.seed, 14);
  if (dice.percent(25)) s.hand_over_every_ns = dice.between(10, 150) * kMs;
}

// Likewise: in a third of all runs. Room and numbers are short in many of them.
void draw_shared_reads(Scenario& s) {
  Dice dice(s.seed, 20);
  SharedReadScenario& shared = s.shared_reads;
  shared.is_used = dice.percent(33);
  if (!shared.is_used) return;
  shared.memory_bytes = s.frame_bytes * dice.between(1, 12);
  shared.credits = dice.between32(1, 32);
  shared.bytes_per_request = dice.percent(50) ? 256 : 256 * 1024;
  shared_reads::SharedReadConfig& config = shared.config;
  config.requests_max = shared.credits;
  config.shared_reads_max = dice.percent(50) ? dice.between32(1, 4) : 64;
  config.waiters_max = dice.percent(30) ? dice.between32(1, 4) : 256;
  config.tenants_max = 8;
  config.fetches_max = dice.between32(1, 4);
  config.fetch_pages_max = dice.between32(1, 8);
  config.linger_ns = dice.percent(50) ? dice.between(1, 20) * kMs : dice.between(20, 500) * kMs;
  config.pages_per_turn = dice.percent(30) ? 1 : 512;
  config.serves_per_turn = dice.percent(30) ? 1 : 256;
  s.engine.fetches = config.operations();
  s.engine.operations += s.engine.fetches;
  s.engine.requests += 4 * s.engine.fetches;
}

// Likewise: of these runs half have an immutable namespace. What nobody uses is soon not asked
// about any more, so that a run comes to rest.
void draw_immutable(Scenario& s) {
  Dice dice(s.seed, 21);
  s.shared_reads.has_immutable = s.shared_reads.is_used && dice.percent(50);
  if (!s.shared_reads.has_immutable) return;
  shared_reads::SharedReadConfig& config = s.shared_reads.config;
  config.confirm_for_ns = std::min(config.linger_ns * dice.between(2, 20), 2 * kSecond);
}

// Likewise: in a quarter of all runs, with an operation for each that may be needed. Not where
// striped puts stall: those bugs need rare luck as it is.
void draw_replicas(Scenario& s) {
  Dice dice(s.seed, 23);
  s.replicated = dice.percent(25) && s.rdma.stalls_per_mille == 0;
  if (!s.replicated) return;
  s.engine.replicas = s.engine.operations - s.engine.fetches;
  s.engine.operations += s.engine.replicas;
  s.server.replicated = s.replicated_names();
  s.manager.mirrors = dice.percent(80) ? cluster::Mirrors::apart : cluster::Mirrors::anywhere;
  if (!s.moves) return;
  // So that there are runs in which all is copied that has to be.
  give_time_to_moves(s);
  s.manager.mirrors = cluster::Mirrors::apart;
  s.manager.membership.rejoin_grace_ns = std::min(s.manager.membership.rejoin_grace_ns, 800 * kMs);
  s.server.requests_max = 64;
  if (!s.rdma.is_used) keep_pools(s);
}

}  // namespace

base::ReplicatedNamespaces Scenario::replicated_names() const {
  std::vector<base::ReplicatedNamespaces::Entry> names;
  for (std::uint32_t tenant = 0; replicated && tenant < tenants; ++tenant) {
    names.emplace_back(tenant_id(tenant), name_space_id(kImmutableNameSpace));
  }
  return base::ReplicatedNamespaces(std::move(names));
}

base::TenantId tenant_id(std::uint32_t tenant) {
  return {tenant + 1};
}
base::NamespaceId name_space_id(std::uint32_t name_space) {
  return {name_space + 71};
}

Scenario Scenario::draw(std::uint64_t seed) {
  Dice dice(seed, 1);
  Scenario s;
  s.seed = seed;
  s.nodes = dice.percent(20) ? 1 : dice.between32(2, 3);
  s.servers = dice.percent(20) ? dice.between32(1, 2) : dice.between32(3, 4);
  s.shards = static_cast<std::uint16_t>(dice.between(1, 2));
  s.tenants = dice.between32(1, 3);
  s.clients = dice.between32(2, 6);
  s.keys = dice.percent(40) ? dice.between32(2, 6) : dice.between32(8, 40);
  s.cluster_seed = dice.next();
  s.batches = dice.between32(40, 150);
  s.frame_bytes = dice.percent(50) ? 2048 : 512 * dice.between32(1, 8);
  s.batch_pages_max = dice.between32(1, 8);
  s.frames = s.batch_pages_max * dice.between32(1, 3);
  s.unfinished_max = dice.between32(1, 4);
  s.lanes = dice.between32(1, 2);
  s.think_max_ns = dice.between(1, 20) * kMs;
  s.timeout_high_ns = dice.percent(50) ? 20 * kMs : 500 * kMs;
  s.one_size = dice.percent(40);
  draw_limits(s, dice);
  draw_manager(s.manager, dice);
  draw_network(s.conditions, dice);
  if (dice.percent(90)) draw_faults(s, dice);
  draw_releases(s);
  draw_settling(s);
  draw_node_pauses(s);
  draw_tcp(s);
  draw_rdma(s);
  draw_etcd(s);
  draw_deltas(s);
  draw_moves(s);
  draw_tells(s);
  draw_hand_overs(s);
  draw_kept_pools(s);
  draw_shared_reads(s);
  draw_immutable(s);
  draw_replicas(s);
  return s;
}

}  // namespace simm::sim
