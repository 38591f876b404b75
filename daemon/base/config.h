// Config: everything a person can set, checked. One table (config_table.h) describes each key: it
// validates a file, gives the defaults, and generates config/simm.schema.json. No file is needed.
// Thread: read at start-up; immutable afterwards, then any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/agent_group.h"
#include "daemon/base/byte_size.h"
#include "daemon/base/choices.h"
#include "daemon/base/log.h"
#include "simm/expected.h"

namespace simm::base {

// Who may attach where. A socket with a tenant decides it; else the first tenant with a matching
// uid or gid rule; else "default".
struct SocketConfig {
  std::string path;
  std::string tenant;      // empty: by the peer's uid and gid
  std::uint32_t mode = 0;  // permission bits of the socket file
};

// A lower limit than this is refused: less than a page of most engines in a second.
inline constexpr std::uint64_t kBandwidthBytesMin = 64 * 1024;

// Of a tenant without a section; `tenants[].in_flight_bytes_max` has the same default.
inline constexpr std::uint64_t kInFlightBytesDefault = std::uint64_t{4} << 30;

struct TenantConfig {
  std::string name;
  std::vector<std::int64_t> uids;
  std::vector<std::int64_t> gids;
  std::uint32_t quota_percent = 0;  // of the pool
  std::uint32_t weight = 1;         // of its fair share
  std::uint64_t in_flight_bytes_max = 0;
  std::uint64_t bandwidth_max_bytes_per_s = 0;  // 0: no limit
  std::string gpu_lend = {};                    // GPUs whose memory it may lend, see text_list.h
};

// What holds for all clients of a namespace of a tenant at this daemon.
struct NamespaceConfig {
  std::string name;  // empty: the tenant's default one
  std::string tenant;
  bool immutable = false;      // a key has one value for ever
  std::uint32_t replicas = 1;  // copies of each object
};

// A daemon that may own slots, as the manager is told.
struct OwnerConfig {
  std::string name;  // its cluster.node_name
  std::uint64_t pool_bytes_max = 0;
  std::uint32_t shards_max = 0;
};

// What somebody says of a NIC of this host; a list of them is the choice of those that are used.
struct NicConfig {
  std::string name;                       // "mlx5_0": all its ports; "mlx5_0/1": this one
  std::optional<std::int32_t> numa_node;  // nothing: what the kernel says
  std::optional<std::uint32_t> speed_gbit_s;
  std::string gpu;  // "0000:1b:00.0"; empty: by place on the PCI bus
  // Nothing: as the keys of `rdma` say for all ports.
  std::optional<std::int32_t> gid_index = std::nullopt;
  std::optional<std::uint32_t> partition_key = std::nullopt;
  std::optional<std::uint32_t> traffic_class = std::nullopt;
};

// One key as it is in effect, for people.
struct EffectiveKey {
  std::string path;   // "sockets[0].path"
  std::string value;  // as JSON text
  std::string from;   // "default", "file", "command line", "role"
};

struct Config {
  std::vector<EffectiveKey> keys;     // every key of the table
  std::vector<std::string> warnings;  // sentences for the log: names that a key no longer has
  struct {
    Threading mode = Threading::shared;
    std::uint32_t data_agents = 0;
    std::vector<std::int64_t> cpus;
  } threading;
  struct {
    WaitMode mode = WaitMode::adaptive;
    std::uint32_t spin_us = 0;
  } wait;
  std::vector<SocketConfig> sockets;
  std::vector<TenantConfig> tenants;
  std::vector<NamespaceConfig> namespaces;
  std::vector<NicConfig> nics;      // empty: all that are found
  std::vector<OwnerConfig> owners;  // empty: every daemon of the cluster may own slots
  std::string run_directory;
  std::string admin_socket;
  std::string counters_file;
  std::string user;  // to become after start as root; empty: stay
  std::uint32_t drain_ms = 0;
  std::uint64_t hash_seed = 0;
  struct {
    ByteShare pool_bytes;
    HugepageMode hugepages = HugepageMode::off;
    std::int32_t numa = -1;
    std::optional<bool> prefault;  // nothing: by the size of the pool
    std::string pool_path;         // a directory of tmpfs or hugetlbfs; empty: the pool is nameless
    RestartMode pool_restart = RestartMode::keep;
    std::uint64_t cache_bytes = 0;  // for copies of other daemons' objects; 0: none are kept
    std::uint32_t cache_linger_ms = 0;
  } node;
  struct {
    std::uint32_t lease_default_ms = 0;
    std::uint32_t lease_max_ms = 0;
    std::uint32_t lease_budget_percent = 0;
    std::uint32_t pin_budget_percent = 0;
    EvictionKind eviction = EvictionKind::reuse;
    std::uint32_t eviction_watermark_percent = 0;
    std::uint32_t objects_max = 0;
    VerifyMode verify = VerifyMode::sampled;
    std::uint64_t scrub_bytes_per_s = 0;
  } store;
  struct {
    std::uint32_t lanes_default = 0;
    std::uint32_t sessions_max = 0;
    std::uint32_t regions_max = 0;
    std::uint32_t handshake_ms = 0;
    std::uint32_t timeout_max_ms = 0;
  } session;
  struct {
    std::uint32_t timeout_default_ms = 0;
    std::uint32_t operations_max = 0;
    std::uint32_t fence_budget_percent = 0;
    std::uint32_t fence_budget_min_ms = 0;
    std::uint32_t fence_budget_max_ms = 0;
    std::uint32_t fence_grace_ms = 0;
  } engine;
  // Of the ports of NICs; every daemon says its own.
  struct {
    RdmaMode mode = RdmaMode::automatic;
    std::int32_t gid_index = -1;      // -1: chosen
    std::uint32_t partition_key = 0;  // 0: that at the index
    std::uint32_t partition_key_index = 0;
    std::uint32_t service_level = 0;
    std::uint32_t traffic_class = 0;
    std::uint32_t timeout = 0;      // 4.096 us * 2^timeout
    std::uint32_t retry_count = 0;  // of a packet without an answer
    std::uint32_t mtu_bytes = 0;    // 0: the port's
    bool relaxed_ordering = true;
    bool on_demand_paging = false;
    std::uint32_t inline_bytes = 0;  // longest page inside a message
  } rdma;
  struct {
    bool foreign = false;
    bool adopt = false;
    std::string adopt_socket;
    bool adopt_root_clients = false;
    std::uint64_t map_bytes_max = 0;         // of a session
    std::uint64_t map_bytes_tenant_max = 0;  // of all sessions of a tenant
    std::uint64_t map_bytes_total_max = 0;   // of all sessions
    std::uint32_t regions_tenant_max = 0;
    std::uint32_t regions_total_max = 0;
    std::uint64_t touch_budget_bytes = 0;
  } memory;
  struct {
    bool enabled = false;
    std::uint64_t tier_bytes = 0;     // of each GPU
    std::uint64_t reserve_bytes = 0;  // of its memory
    std::uint64_t lend_bytes_max = 0;
  } gpu;
  // What daemons of one cluster say about it, all of them the same but for listen, advertise and
  // node_name.
  struct {
    std::string name;
    std::string secret_file;  // @name: a credential; empty: no secret, loopback only
    std::string manager;      // where managers listen, see text_list.h; empty: no cluster
    std::string listen;       // for other daemons
    std::string advertise;    // what they dial; empty: where it listens
    std::string node_name;    // empty: the host's
    std::uint32_t detection_ms = 0;
    std::uint32_t connections_per_shard = 0;
    std::uint64_t move_bytes_per_s = 0;  // 0: objects of a slot that moves are dropped
    std::uint32_t move_window_ms = 0;
  } cluster;
  struct {
    std::string listen;
    std::string state_file;
    std::string etcd;  // endpoints, see text_list.h; empty: the state file
    std::string etcd_user;
    std::string etcd_password_file;
    std::string etcd_ca_file;
    std::string etcd_cert_file;
    std::string etcd_key_file;
    std::uint32_t rejoin_grace_ms = 0;
    std::uint32_t member_timeout_ms = 0;
  } manager;
  struct {
    std::string listen;      // for HTTP; empty: nowhere
    std::string token_file;  // of the status page, @name: a credential; empty: loopback only
    std::string host_names;  // see text_list.h
  } metrics;
  struct {
    std::string endpoint;      // of a receiver of OTLP over HTTP; empty: nobody is told
    std::string ca_file;       // empty: the system's authorities
    std::uint32_t one_in = 0;  // of operations that are part of no trace; 0: none
    std::uint32_t per_second = 0;
  } trace;
  struct {
    KeyEventsMode keys = KeyEventsMode::off;
  } events;
  struct {
    LogLevel level = LogLevel::info;
    LogFormat format = LogFormat::text;
  } log;
};

// The configuration of no file at all: one socket in the run directory of this user.
Config default_config();

std::optional<Role> parse_role(std::string_view name) noexcept;

// What a configuration that is sound in itself lacks for a role; invalid_argument names the key.
Outcome check_for_role(const Config& config, Role role);

// Notes that a key has another value than the file says, and why.
void note_override(Config& config, std::string_view path, std::string_view value,
                   std::string_view from);

// Parses and checks. JSON with comments (// and /* */). An error names the file, the key path, the
// value and what to write instead. `file` is only for messages.
Expected<Config> parse_config(std::string_view json, const std::string& file);
Expected<Config> load_config(const std::string& path);

// Listens on this one socket instead of the configured ones, with the run directory, the admin
// socket and the counters file beside it.
void use_socket(Config& config, const std::string& path);

// The directory that the service manager keeps for this service ($STATE_DIRECTORY), else the run
// directory: where what has to outlive the process is kept.
std::string state_directory(const Config& config);

// /run/simm for root, else $XDG_RUNTIME_DIR/simm, else /tmp/simm-<uid>.
std::string default_run_directory();

}  // namespace simm::base
