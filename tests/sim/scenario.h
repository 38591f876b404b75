// Scenario: everything about a run that is drawn once from its seed.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/replica.h"
#include "daemon/cluster/manager.h"
#include "daemon/engine/engine_config.h"
#include "daemon/moves/slot_mover.h"
#include "daemon/server/server_config.h"
#include "daemon/shared_reads/shared_read_config.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/transport/rdma/rdma_config.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "tests/sim/conditions.h"
#include "tests/sim/rdma/sim_rdma_device.h"

namespace simm::sim {

// How nodes reach servers over sockets.
inline constexpr std::size_t kLinkMessages = 256;  // on their way between two threads
struct TcpScenario {
  bool is_used = false;
  std::uint32_t links_per_shard = 1;
  std::size_t buffer_bytes = 64 * 1024;  // of each direction and end of a connection
  transport::TcpRequesterConfig requester;
  transport::TcpResponderConfig responder;
};

// How nodes reach them also in some of these runs.
struct RdmaScenario {
  bool is_used = false;
  std::uint16_t rails = 1;  // of each node; a server has one for each shard
  SimDeviceConfig device;
  transport::RdmaRequesterConfig requester;
  transport::RdmaResponderConfig responder;
  // Faults, as below.
  base::TimeNs cable_every_ns = 0;
  base::TimeNs slow_fences_every_ns = 0;
  base::TimeNs hold_every_ns = 0;
  std::uint32_t lost_answers_per_mille = 0;  // a cable is pulled when one is sent
  std::uint32_t stalls_per_mille = 0;        // of striped puts: their server stops in the middle
};

// In some runs several managers lead in turn, over an etcd.
struct EtcdScenario {
  bool is_used = false;
  std::uint32_t managers = 1;
  std::uint32_t doubtful_per_mille = 0;  // of etcd's writes: nobody says whether they happened
  // Faults, as below.
  base::TimeNs cut_every_ns = 0;   // one manager does not reach etcd
  base::TimeNs down_every_ns = 0;  // no manager does
};

// In some runs reads that clients call shared are fetched once for all clients of a node.
struct SharedReadScenario {
  bool is_used = false;
  std::uint64_t memory_bytes = 0;  // of each node
  std::uint32_t credits = 1;       // on the way from its engine to them
  std::uint64_t bytes_per_request = 256 * 1024;
  shared_reads::SharedReadConfig config;
  // Keys of kImmutableNameSpace have one value for ever, and most clients say so.
  bool has_immutable = false;
};

struct Scenario {
  static Scenario draw(std::uint64_t seed);

  std::uint64_t seed = 0;
  std::uint32_t nodes = 1;
  std::uint32_t servers = 1;
  std::uint16_t shards = 1;
  std::uint32_t tenants = 1;
  std::uint32_t clients = 2;
  std::uint32_t keys = 8;  // of each tenant and namespace
  std::uint64_t cluster_seed = 0;

  // Clients.
  std::uint32_t batches = 100;       // of each client
  std::uint32_t frames = 8;          // pages of memory of each client
  std::uint32_t frame_bytes = 2048;  // longest object
  std::uint32_t batch_pages_max = 8;
  std::uint32_t unfinished_max = 3;  // batches of one client
  std::uint32_t lanes = 1;
  base::TimeNs think_max_ns = 1 * kMs;
  base::TimeNs timeout_low_ns = 1 * kMs;
  base::TimeNs timeout_high_ns = 200 * kMs;
  bool one_size = false;  // of all objects: the allocator then meets the same extents again

  // Limits.
  std::uint64_t arena_bytes = 64 * 1024;
  engine::EngineConfig engine;
  server::ServerConfig server;
  store::StoreConfig store;
  std::uint32_t tenant_operations_max = 8;
  std::uint64_t tenant_bytes_max = 1 << 20;

  // The manager. Its clock may run at up to twice the speed, or at half of it.
  cluster::ManagerConfig manager;

  // A server that is killed leaves its pool to the next one.
  bool keeps_pools = false;
  std::uint32_t damaged_percent = 0;  // of these pools: bytes of theirs go wrong meanwhile

  // Objects follow their slots to new owners.
  bool moves = false;
  bool reads_wait = false;  // long enough for objects on their way
  moves::MoverConfig mover;

  EtcdScenario etcd;
  SharedReadScenario shared_reads;
  // Objects of kImmutableNameSpace are kept twice; all clients say then that it is immutable.
  bool replicated = false;

  TcpScenario tcp;
  RdmaScenario rdma;

  // Faults: mean time between two of a kind; 0: none.
  Conditions conditions;
  base::TimeNs server_crash_every_ns = 0;
  base::TimeNs node_crash_every_ns = 0;
  base::TimeNs node_pause_every_ns = 0;
  base::TimeNs pause_every_ns = 0;
  base::TimeNs pause_max_ns = 100 * kMs;
  base::TimeNs break_every_ns = 0;
  base::TimeNs partition_every_ns = 0;
  base::TimeNs slow_every_ns = 0;
  base::TimeNs drain_every_ns = 0;
  base::TimeNs hand_over_every_ns = 0;  // drains on request, and their cancels
  base::TimeNs manager_crash_every_ns = 0;
  base::TimeNs manager_pause_every_ns = 0;
  base::TimeNs control_cut_every_ns = 0;
  std::uint32_t disk_failure_percent = 0;  // of the manager's writes
  std::uint32_t too_long_percent = 0;      // of absences: longer than the grace
  std::uint32_t lost_deltas_percent = 0;   // of the differences between maps that daemons are sent

  [[nodiscard]] bool has_immutable() const { return replicated || shared_reads.has_immutable; }
  [[nodiscard]] base::ReplicatedNamespaces replicated_names() const;

  std::uint32_t old_release_percent = 0;  // of processes that speak the oldest protocol version
};

// A tenant, a namespace, a text: what the keys of a scenario are.
base::TenantId tenant_id(std::uint32_t tenant);
base::NamespaceId name_space_id(std::uint32_t name_space);
inline constexpr std::uint32_t kNameSpaces = 2;          // of each tenant; they use the same texts
inline constexpr std::uint32_t kImmutableNameSpace = 1;  // in the runs that have one

}  // namespace simm::sim
