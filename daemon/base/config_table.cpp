#include "daemon/base/config_table.h"

#include "daemon/base/limits.h"
#include "ipc/layout.h"

namespace simm::base {
namespace {

using C = Config;
using V = const KeyValue;
using N = std::size_t;
constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::int64_t kIdMax = 0xffff'fffeLL;

std::uint32_t u32(V& v) {
  return static_cast<std::uint32_t>(v.number);
}

// clang-format off: a table is read by its columns.
constexpr KeySpec kKeys[] = {
    {"threading.mode", KeyType::choice, "\"shared\"", 0, 0, kThreadingNames,
     "shared: all data agents in one loop on one thread; dedicated: one thread each.",
     [](C& c, N, V& v) { c.threading.mode = static_cast<Threading>(v.choice); }},
    {"threading.data_agents", KeyType::integer, "1", 1, kDataAgentsMax, "",
     "How many data agents; each owns sessions and one shard of the store.",
     [](C& c, N, V& v) { c.threading.data_agents = u32(v); }},
    {"threading.cpus", KeyType::integers, "[]", 0, 1023, "",
     "CPUs for the data threads, in turn; empty: the kernel chooses.",
     [](C& c, N, V& v) { c.threading.cpus = v.list; }},
    {"wait.mode", KeyType::choice, "\"adaptive\"", 0, 0, kWaitModeNames,
     "How an idle data thread waits: spin burns a CPU, event sleeps at once, adaptive does both.",
     [](C& c, N, V& v) { c.wait.mode = static_cast<WaitMode>(v.choice); }},
    {"wait.spin_us", KeyType::integer, "50", 0, 100'000, "",
     "Longest spinning of the adaptive mode before it sleeps, in microseconds.",
     [](C& c, N, V& v) { c.wait.spin_us = u32(v); }},
    {"sockets[].path", KeyType::text, "", 1, 107, "",
     "Path of a listening socket; @name for one handed over by the service manager.",
     [](C& c, N i, V& v) { c.sockets.at(i).path = v.text; }},
    {"sockets[].tenant", KeyType::text, "\"\"", 0, 64, "",
     "Tenant of everybody who attaches here; empty: decided by uid and gid rules.",
     [](C& c, N i, V& v) { c.sockets.at(i).tenant = v.text; }},
    {"sockets[].mode", KeyType::text, "\"0660\"", 3, 4, "",
     "Permission bits of the socket file, octal.",
     [](C& c, N i, V& v) {
       c.sockets.at(i).mode = static_cast<std::uint32_t>(std::stoul(v.text, nullptr, 8));
     }},
    {"tenants[].name", KeyType::text, "", 1, 64, "",
     "Name of a tenant; objects of different tenants never meet.",
     [](C& c, N i, V& v) { c.tenants.at(i).name = v.text; }},
    {"tenants[].uids", KeyType::integers, "[]", 0, kIdMax, "",
     "User ids that belong to this tenant on sockets without one.",
     [](C& c, N i, V& v) { c.tenants.at(i).uids = v.list; }},
    {"tenants[].gids", KeyType::integers, "[]", 0, kIdMax, "",
     "Group ids that belong to this tenant on sockets without one.",
     [](C& c, N i, V& v) { c.tenants.at(i).gids = v.list; }},
    {"tenants[].quota_percent", KeyType::integer, "100", 1, 100, "",
     "Largest share of the pool that this tenant's objects may hold, in percent.",
     [](C& c, N i, V& v) { c.tenants.at(i).quota_percent = u32(v); }},
    {"tenants[].weight", KeyType::integer, "1", 1, 100, "",
     "Fair share of a full pool and of the turns of a busy shard or link, relative to other "
     "tenants' weights; who leaves it unused lends it.",
     [](C& c, N i, V& v) { c.tenants.at(i).weight = u32(v); }},
    {"tenants[].in_flight_bytes_max", KeyType::bytes, "\"4GiB\"", 1 << 20, 1LL << 50, "",
     "Bytes of this tenant's operations that may be under way at once, at each data agent.",
     [](C& c, N i, V& v) { c.tenants.at(i).in_flight_bytes_max = v.share.bytes; }},
    {"tenants[].bandwidth_max", KeyType::bytes, "\"0\"", 0, 1LL << 50, "",
     "Bytes a second that this tenant's clients may get and put through this daemon, from its own "
     "pool and from others together; at least 64KiB, 0: no limit; what is above waits.",
     [](C& c, N i, V& v) { c.tenants.at(i).bandwidth_max_bytes_per_s = v.share.bytes; }},
    {"tenants[].gpu_lend", KeyType::texts, "\"\"", 0, 4000, "",
     "GPUs whose memory this tenant's clients may lend to the tier of that GPU, as nvidia-smi -L "
     "names them: GPU-..., or a list; all: every GPU; empty: none.",
     [](C& c, N i, V& v) { c.tenants.at(i).gpu_lend = v.text; }},
    {"namespaces[].name", KeyType::text, "", 0, 255, "",
     "A namespace that clients open; \"\": the one of those that open none.",
     [](C& c, N i, V& v) { c.namespaces.at(i).name = v.text; }},
    {"namespaces[].tenant", KeyType::text, "\"default\"", 1, 64, "", "The tenant that it is of.",
     [](C& c, N i, V& v) { c.namespaces.at(i).tenant = v.text; }},
    {"namespaces[].immutable", KeyType::boolean, "false", 0, 0, "",
     "Its keys are hashes of the values, so a key has one value for ever: copies on this node do "
     "not become too old, and a put of a key that is there leaves the old value; say the same on "
     "all nodes.",
     [](C& c, N i, V& v) { c.namespaces.at(i).immutable = v.flag; }},
    {"namespaces[].replicas", KeyType::integer, "1", 1, 2, "",
     "Copies of each object: 2 keeps a second one at another storage daemon, which is read when "
     "the "
     "owner is away; of immutable namespaces only; say the same on all daemons, storage too.",
     [](C& c, N i, V& v) { c.namespaces.at(i).replicas = u32(v); }},
    {"owners[].name", KeyType::text, "", 1, 64, "",
     "The cluster.node_name of a daemon that may own slots, for the manager; without a list every "
     "daemon of the cluster may, with one no others.",
     [](C& c, N i, V& v) { c.owners.at(i).name = v.text; }},
    {"owners[].pool_bytes_max", KeyType::bytes, "\"256TiB\"", 1 << 20, 1LL << 48, "",
     "The largest pool that it may join with.",
     [](C& c, N i, V& v) { c.owners.at(i).pool_bytes_max = v.share.bytes; }},
    {"owners[].shards_max", KeyType::integer, "64", 1, 64, "",
     "The most shards that it may join with.",
     [](C& c, N i, V& v) { c.owners.at(i).shards_max = u32(v); }},
    {"nics[].name", KeyType::text, "", 1, 64, "",
     "An RDMA device that is used, as mlx5_0, or one port of it, as mlx5_0/1; with a list no "
     "others are; without one those that are at least half as fast as the fastest, and have an IP "
     "address where others have (RoCE). simmctl nics names them, and says why one is left out.",
     [](C& c, N i, V& v) { c.nics.at(i).name = v.text; }},
    {"nics[].numa_node", KeyType::integer, "null", 0, 1023, "",
     "NUMA node whose memory it is near to; left out: what the kernel says.",
     [](C& c, N i, V& v) { c.nics.at(i).numa_node = static_cast<std::int32_t>(v.number); }},
    {"nics[].speed_gbit_s", KeyType::integer, "null", 1, 100'000, "",
     "Its speed in Gbit/s; left out: what its port says.",
     [](C& c, N i, V& v) { c.nics.at(i).speed_gbit_s = u32(v); }},
    {"nics[].gpu", KeyType::text, "null", 1, 64, "",
     "PCI address of the one GPU whose memory it is near to, as 0000:1b:00.0; left out: of those "
     "behind the same PCI switch.",
     [](C& c, N i, V& v) { c.nics.at(i).gpu = v.text; }},
    {"nics[].gid_index", KeyType::integer, "null", -1, 255, "",
     "rdma.gid_index of this port, where it differs from that of all.",
     [](C& c, N i, V& v) { c.nics.at(i).gid_index = static_cast<std::int32_t>(v.number); }},
    {"nics[].partition_key", KeyType::integer, "null", 0, 65'535, "",
     "rdma.partition_key of this port, where it differs from that of all.",
     [](C& c, N i, V& v) { c.nics.at(i).partition_key = u32(v); }},
    {"nics[].traffic_class", KeyType::integer, "null", 0, 255, "",
     "rdma.traffic_class of this port, where it differs from that of all.",
     [](C& c, N i, V& v) { c.nics.at(i).traffic_class = u32(v); }},
    {"run_directory", KeyType::text, "\"\"", 0, 80, "",
     "Where sockets and the counters file live; empty: /run/simm, or one of this user.",
     [](C& c, N, V& v) { c.run_directory = v.text; }},
    {"admin_socket", KeyType::text, "\"\"", 0, 107, "",
     "Path of the socket for simmctl, owner only; empty: admin.sock in run_directory.",
     [](C& c, N, V& v) { c.admin_socket = v.text; }},
    {"counters_file", KeyType::text, "\"\"", 0, 4000, "",
     "Path of the counters file; empty: counters in run_directory.",
     [](C& c, N, V& v) { c.counters_file = v.text; }},
    {"user", KeyType::text, "\"\"", 0, 64, "",
     "User to become when started as root; empty: stay who started it.",
     [](C& c, N, V& v) { c.user = v.text; }},
    {"drain_ms", KeyType::integer, "5000", 0, 600'000, "",
     "How long a graceful stop waits for work under way, in milliseconds.",
     [](C& c, N, V& v) { c.drain_ms = u32(v); }},
    {"node.pool_bytes", KeyType::bytes_or_share, "\"10%\"", 0, 1LL << 50, "",
     "Memory for objects: bytes, a size, or a percentage of the host's memory; "
     "0: a node of a cluster that holds none.",
     [](C& c, N, V& v) { c.node.pool_bytes = v.share; }},
    {"node.hugepages", KeyType::choice, "\"try\"", 0, 0, kHugepageNames,
     "Huge pages for the pool: never, when there are enough, or fail without them.",
     [](C& c, N, V& v) { c.node.hugepages = static_cast<HugepageMode>(v.choice); }},
    {"node.numa", KeyType::integer, "-1", -1, 1023, "",
     "NUMA node to which the pool is bound; -1: each shard prefers the node of its agent's CPU in "
     "threading.cpus.",
     [](C& c, N, V& v) { c.node.numa = static_cast<std::int32_t>(v.number); }},
    {"node.prefault", KeyType::boolean, "null", 0, 0, "",
     "Make the whole pool present in the background from the start on, instead of page by page "
     "when it is first used; by default only a pool of 16 GiB or more.",
     [](C& c, N, V& v) { c.node.prefault = v.flag; }},
    {"node.pool_path", KeyType::text, "\"\"", 0, 4000, "",
     "Directory of tmpfs or hugetlbfs for the pool, as /dev/shm/simm, made if it is not there: the "
     "objects outlive the daemon; empty: they do so only under a service manager that keeps files.",
     [](C& c, N, V& v) { c.node.pool_path = v.text; }},
    {"node.pool_restart", KeyType::choice, "\"keep\"", 0, 0, kRestartNames,
     "Objects that an earlier daemon has left: keep them when they fit this configuration, drop "
     "them, or fail when they do not fit.",
     [](C& c, N, V& v) { c.node.pool_restart = static_cast<RestartMode>(v.choice); }},
    {"node.cache_bytes", KeyType::bytes, "\"256MiB\"", 0, 1LL << 50, "",
     "Memory of a node in a cluster for objects that several processes read, so that each is "
     "fetched once; 0: every process fetches for itself.",
     [](C& c, N, V& v) { c.node.cache_bytes = v.share.bytes; }},
    {"node.cache_linger_ms", KeyType::integer, "2000", 1, 60'000, "",
     "How long such an object may be read after it was fetched, in milliseconds.",
     [](C& c, N, V& v) { c.node.cache_linger_ms = u32(v); }},
    {"store.lease_default_ms", KeyType::integer, "15000", 0, kDayMs, "",
     "Lease that a successful exists or get grants when the caller names none, in milliseconds.",
     [](C& c, N, V& v) { c.store.lease_default_ms = u32(v); }},
    {"store.lease_max_ms", KeyType::integer, "60000", 0, kDayMs, "",
     "Longest lease a caller can ask for, in milliseconds.",
     [](C& c, N, V& v) { c.store.lease_max_ms = u32(v); }},
    {"store.lease_budget_percent", KeyType::integer, "50", 0, 100, "",
     "Part of a tenant's share that its leases may keep from eviction, in percent; then the oldest "
     "goes.",
     [](C& c, N, V& v) { c.store.lease_budget_percent = u32(v); }},
    {"store.pin_budget_percent", KeyType::integer, "10", 0, 50, "",
     "Part of a tenant's share that its pinned objects may hold, in percent; then pins are "
     "refused.",
     [](C& c, N, V& v) { c.store.pin_budget_percent = u32(v); }},
    {"store.eviction", KeyType::choice, "\"reuse\"", 0, 0, kEvictionNames,
     "What leaves a full pool first: what will be used again last, as learned from the traffic; "
     "the least recently used; or the oldest.",
     [](C& c, N, V& v) { c.store.eviction = static_cast<EvictionKind>(v.choice); }},
    {"store.eviction_watermark_percent", KeyType::integer, "98", 10, 100, "",
     "Eviction begins when more of the pool is in use, in percent, and never keeps more than "
     "64 MiB of a shard free; a put that needs more room makes it.",
     [](C& c, N, V& v) { c.store.eviction_watermark_percent = u32(v); }},
    {"store.objects_max", KeyType::integer, "0", 0, 1LL << 31, "",
     "Objects the index has room for; 0: by the size of the pool.",
     [](C& c, N, V& v) { c.store.objects_max = u32(v); }},
    {"store.verify", KeyType::choice, "\"sampled\"", 0, 0, kVerifyNames,
     "Checksums on get: never, one in 64, or every time.",
     [](C& c, N, V& v) { c.store.verify = static_cast<VerifyMode>(v.choice); }},
    {"store.scrub_bytes_per_s", KeyType::bytes, "\"16MiB\"", 0, 1LL << 40, "",
     "How much of the pool is compared with its checksums in a second, in the background and all "
     "of it at most once an hour; 0: none.",
     [](C& c, N, V& v) { c.store.scrub_bytes_per_s = v.share.bytes; }},
    {"session.lanes_default", KeyType::integer, "8", 1, ipc::kLanesMax, "",
     "Lanes of a session that asks for no number; a lane serves one caller at a time.",
     [](C& c, N, V& v) { c.session.lanes_default = u32(v); }},
    {"session.sessions_max", KeyType::integer, "256", 1, 65'535, "",
     "Sessions of one tenant on one listening socket; as many more connections wait, then they are "
     "refused.",
     [](C& c, N, V& v) { c.session.sessions_max = u32(v); }},
    {"session.regions_max", KeyType::integer, "4096", 1, ipc::kRegionsMax, "",
     "Memory regions per session.", [](C& c, N, V& v) { c.session.regions_max = u32(v); }},
    {"session.handshake_ms", KeyType::integer, "1000", 10, 60'000, "",
     "Time a connection has to attach, in milliseconds.",
     [](C& c, N, V& v) { c.session.handshake_ms = u32(v); }},
    {"session.timeout_max_ms", KeyType::integer, "600000", 1000, kDayMs, "",
     "Longest deadline that a client may give a call, in milliseconds; a longer one is cut to it.",
     [](C& c, N, V& v) { c.session.timeout_max_ms = u32(v); }},
    {"engine.timeout_default_ms", KeyType::integer, "10000", 1, kDayMs, "",
     "Deadline of a submission that names none, in milliseconds.",
     [](C& c, N, V& v) { c.engine.timeout_default_ms = u32(v); }},
    {"engine.operations_max", KeyType::integer, "1024", 1, 65'535, "",
     "Submissions under way at once, per data agent; more wait in their rings.",
     [](C& c, N, V& v) { c.engine.operations_max = u32(v); }},
    {"engine.fence_budget_percent", KeyType::integer, "20", 0, 90, "",
     "Share of a deadline that is kept for fencing, in percent.",
     [](C& c, N, V& v) { c.engine.fence_budget_percent = u32(v); }},
    {"engine.fence_budget_min_ms", KeyType::integer, "10", 0, kDayMs, "",
     "Least time kept for fencing, in milliseconds.",
     [](C& c, N, V& v) { c.engine.fence_budget_min_ms = u32(v); }},
    {"engine.fence_budget_max_ms", KeyType::integer, "200", 0, kDayMs, "",
     "Most time kept for fencing, in milliseconds.",
     [](C& c, N, V& v) { c.engine.fence_budget_max_ms = u32(v); }},
    {"engine.fence_grace_ms", KeyType::integer, "100", 1, kDayMs, "",
     "Completion comes at the latest this long after the deadline, in milliseconds.",
     [](C& c, N, V& v) { c.engine.fence_grace_ms = u32(v); }},
    {"memory.foreign", KeyType::boolean, "false", 0, 0, "",
     "Copy private client memory through a helper process (process_vm_readv); not in a cluster.",
     [](C& c, N, V& v) { c.memory.foreign = v.flag; }},
    {"memory.adopt", KeyType::boolean, "true", 0, 0, "",
     "Open existing shared mappings of clients by the adopt helper; never with several tenants.",
     [](C& c, N, V& v) { c.memory.adopt = v.flag; }},
    {"memory.map_bytes_max", KeyType::bytes, "\"16TiB\"", 1 << 20, 1LL << 50, "",
     "Bytes of client memory that one session may have mapped.",
     [](C& c, N, V& v) { c.memory.map_bytes_max = v.share.bytes; }},
    {"memory.adopt_socket", KeyType::text, "\"\"", 0, 107, "",
     "Socket of a helper service (simmd adopt); empty: a daemon started as root forks its own.",
     [](C& c, N, V& v) { c.memory.adopt_socket = v.text; }},
    {"memory.adopt_root_clients", KeyType::boolean, "true", 0, 0, "",
     "Adopt memory of clients that run as root; the helper then keeps CAP_SYS_PTRACE.",
     [](C& c, N, V& v) { c.memory.adopt_root_clients = v.flag; }},
    {"memory.map_bytes_tenant_max", KeyType::bytes, "\"32TiB\"", 1 << 20, 1LL << 50, "",
     "Bytes of client memory that all sessions of one tenant together may have mapped.",
     [](C& c, N, V& v) { c.memory.map_bytes_tenant_max = v.share.bytes; }},
    {"memory.regions_tenant_max", KeyType::integer, "16384", 1, 1 << 20, "",
     "Memory regions of all sessions of one tenant together.",
     [](C& c, N, V& v) { c.memory.regions_tenant_max = u32(v); }},
    {"memory.regions_total_max", KeyType::integer, "32768", 1, 1 << 20, "",
     "Memory regions of all sessions; each is a mapping, of which a process has vm.max_map_count.",
     [](C& c, N, V& v) { c.memory.regions_total_max = u32(v); }},
    {"memory.map_bytes_total_max", KeyType::bytes, "\"64TiB\"", 1 << 20, 1LL << 50, "",
     "Bytes of client memory that all sessions together may have mapped.",
     [](C& c, N, V& v) { c.memory.map_bytes_total_max = v.share.bytes; }},
    {"memory.touch_budget_bytes", KeyType::bytes, "\"64MiB\"", 0, 1LL << 50, "",
     "Absent client pages that the daemon makes present by touching, per session and ten minutes.",
     [](C& c, N, V& v) { c.memory.touch_budget_bytes = v.share.bytes; }},
    {"gpu.enabled", KeyType::boolean, "false", 0, 0, "",
     "Let clients register memory of GPUs; a helper process for each GPU copies it.",
     [](C& c, N, V& v) { c.gpu.enabled = v.flag; }},
    {"gpu.tier_bytes", KeyType::bytes, "\"0\"", 0, 1LL << 50, "",
     "Memory of each GPU that its helper may take for copies of objects that clients get into that "
     "GPU again and again, in whole extents of 64MiB; 0: none.",
     [](C& c, N, V& v) { c.gpu.tier_bytes = v.share.bytes; }},
    {"gpu.reserve_bytes", KeyType::bytes, "\"1GiB\"", 0, 1LL << 50, "",
     "Free memory of each GPU that gpu.tier_bytes leaves to others; when there is less, the helper "
     "gives memory back.",
     [](C& c, N, V& v) { c.gpu.reserve_bytes = v.share.bytes; }},
    {"gpu.lend_bytes_max", KeyType::bytes, "\"64GiB\"", 0, 1LL << 50, "",
     "Memory of one GPU that the clients of one tenant may lend to its tier, all together; 0: "
     "none; tenants[].gpu_lend says who may.",
     [](C& c, N, V& v) { c.gpu.lend_bytes_max = v.share.bytes; }},
    {"rdma.mode", KeyType::choice, "\"auto\"", 0, 0, kRdmaNames,
     "auto: pages move by RDMA to and from daemons that have it, too, else over TCP; off: never; "
     "require: fail without an RDMA port, and never move pages over TCP.",
     [](C& c, N, V& v) { c.rdma.mode = static_cast<RdmaMode>(v.choice); }},
    {"rdma.gid_index", KeyType::integer, "-1", -1, 255, "",
     "Entry of the ports' GID table; -1: RoCE v2 over IPv4, then over IPv6, then what there is.",
     [](C& c, N, V& v) { c.rdma.gid_index = static_cast<std::int32_t>(v.number); }},
    {"rdma.partition_key", KeyType::integer, "0", 0, 65'535, "",
     "Partition key (InfiniBand), wherever it stands in a port's table, as 32769 for 0x8001; 0: "
     "that at rdma.partition_key_index.",
     [](C& c, N, V& v) { c.rdma.partition_key = u32(v); }},
    {"rdma.partition_key_index", KeyType::integer, "0", 0, 127, "",
     "Entry of the ports' partition key table (InfiniBand).",
     [](C& c, N, V& v) { c.rdma.partition_key_index = u32(v); }},
    {"rdma.service_level", KeyType::integer, "0", 0, 15, "",
     "Service level of the packets (InfiniBand).",
     [](C& c, N, V& v) { c.rdma.service_level = u32(v); }},
    {"rdma.traffic_class", KeyType::integer, "0", 0, 255, "",
     "Traffic class of the packets (RoCE): the byte by which switches choose a queue, as 106 where "
     "DSCP 26 loses nothing.",
     [](C& c, N, V& v) { c.rdma.traffic_class = u32(v); }},
    {"rdma.timeout", KeyType::integer, "14", 1, 31, "",
     "Wait for an answer to a packet before it is sent again: 4.096 us times 2 to this power.",
     [](C& c, N, V& v) { c.rdma.timeout = u32(v); }},
    {"rdma.retry_count", KeyType::integer, "6", 0, 7, "",
     "How often a packet is sent again before its connection is given up; some devices take 7 for "
     "ever.",
     [](C& c, N, V& v) { c.rdma.retry_count = u32(v); }},
    {"rdma.mtu_bytes", KeyType::integer, "0", 0, 4096, "",
     "Longest packet, 256, 512, 1024, 2048 or 4096 bytes; 0: what the port has.",
     [](C& c, N, V& v) { c.rdma.mtu_bytes = u32(v); }},
    {"rdma.relaxed_ordering", KeyType::boolean, "true", 0, 0, "",
     "Let ports write the bytes of a page in any order, where they can; it helps on hosts whose "
     "PCI "
     "bus orders strictly.",
     [](C& c, N, V& v) { c.rdma.relaxed_ordering = v.flag; }},
    {"rdma.on_demand_paging", KeyType::boolean, "false", 0, 0, "",
     "Where memory can not be locked (RLIMIT_MEMLOCK), let a device that can page it in, slowly; "
     "else its bytes go over TCP.",
     [](C& c, N, V& v) { c.rdma.on_demand_paging = v.flag; }},
    {"rdma.inline_bytes", KeyType::integer, "4096", 0, 8192, "",
     "Longest page that travels inside a message instead of by READ or WRITE.",
     [](C& c, N, V& v) { c.rdma.inline_bytes = u32(v); }},
    {"hash_seed", KeyType::integer, "0", 0, INT64_MAX, "",
     "Seed of key hashes; daemons of one cluster share it; 0: from the cluster's secret and name, "
     "without a cluster drawn at every start.",
     [](C& c, N, V& v) { c.hash_seed = static_cast<std::uint64_t>(v.number); }},
    {"cluster.name", KeyType::text, "\"simm\"", 1, 64, "",
     "Name of the cluster, the same for all its daemons: letters, digits, dot, dash, underscore.",
     [](C& c, N, V& v) { c.cluster.name = v.text; }},
    {"cluster.secret_file", KeyType::text, "\"\"", 0, 4000, "",
     "File with the secret of the cluster, mode 0600, the same for all its daemons; @name for a "
     "credential handed over by the service manager; empty: no secret, and loopback only.",
     [](C& c, N, V& v) { c.cluster.secret_file = v.text; }},
    {"cluster.manager", KeyType::texts, "\"\"", 0, 1000, "",
     "Where the manager listens, as host:port, or a list of all managers, 5 at most; empty: a node "
     "serves from its own pool alone.",
     [](C& c, N, V& v) { c.cluster.manager = v.text; }},
    {"cluster.listen", KeyType::text, "\"127.0.0.1:0\"", 1, 64, "",
     "Numeric address and port for other daemons, of daemons with a pool; port 0: a free one.",
     [](C& c, N, V& v) { c.cluster.listen = v.text; }},
    {"cluster.advertise", KeyType::text, "\"\"", 0, 300, "",
     "What other daemons dial, as host or host:port; {name} in it stands for the name of this "
     "daemon; empty: the address of cluster.listen.",
     [](C& c, N, V& v) { c.cluster.advertise = v.text; }},
    {"cluster.node_name", KeyType::text, "\"\"", 0, 64, "",
     "Name of this daemon, unique among those of its role; empty: the name of the host.",
     [](C& c, N, V& v) { c.cluster.node_name = v.text; }},
    {"cluster.detection_ms", KeyType::integer, "300", 20, 60'000, "",
     "A daemon that is silent for so long while it is asked is dead, in milliseconds.",
     [](C& c, N, V& v) { c.cluster.detection_ms = u32(v); }},
    {"cluster.connections_per_shard", KeyType::integer, "2", 1, 8, "",
     "Connections from each data agent to each shard of each other daemon.",
     [](C& c, N, V& v) { c.cluster.connections_per_shard = u32(v); }},
    {"cluster.move_bytes_per_s", KeyType::bytes, "\"512MiB\"", 0, 1LL << 40, "",
     "How fast a daemon sends the objects of slots that it has lost to their new owners, in bytes "
     "per second; 0: they are dropped.",
     [](C& c, N, V& v) { c.cluster.move_bytes_per_s = v.share.bytes; }},
    {"cluster.move_window_ms", KeyType::integer, "300000", 100, 3'600'000, "",
     "For so long objects follow their slot to its new owner, in milliseconds; what is left then "
     "is dropped.",
     [](C& c, N, V& v) { c.cluster.move_window_ms = u32(v); }},
    {"manager.listen", KeyType::text, "\"127.0.0.1:30001\"", 1, 64, "",
     "Numeric address and port of the manager for the daemons of the cluster.",
     [](C& c, N, V& v) { c.manager.listen = v.text; }},
    {"manager.state_file", KeyType::text, "\"\"", 0, 4000, "",
     "Where the manager keeps the map; empty: manager.state in $STATE_DIRECTORY or run_directory.",
     [](C& c, N, V& v) { c.manager.state_file = v.text; }},
    {"manager.etcd", KeyType::texts, "\"\"", 0, 1000, "",
     "Endpoints of etcd, as http://host:2379 or https://host:2379, or a list of them: the map is "
     "kept there, and of several managers one leads; empty: the map is kept in manager.state_file.",
     [](C& c, N, V& v) { c.manager.etcd = v.text; }},
    {"manager.etcd_user", KeyType::text, "\"\"", 0, 200, "",
     "User of etcd whose role reads and writes /simm/; empty: etcd asks for none.",
     [](C& c, N, V& v) { c.manager.etcd_user = v.text; }},
    {"manager.etcd_password_file", KeyType::text, "\"\"", 0, 4000, "",
     "File with the password of manager.etcd_user, mode 0600.",
     [](C& c, N, V& v) { c.manager.etcd_password_file = v.text; }},
    {"manager.etcd_ca_file", KeyType::text, "\"\"", 0, 4000, "",
     "PEM file with the authorities that may sign etcd's certificate; empty: those of the system.",
     [](C& c, N, V& v) { c.manager.etcd_ca_file = v.text; }},
    {"manager.etcd_cert_file", KeyType::text, "\"\"", 0, 4000, "",
     "PEM file with this manager's certificate for etcd; empty: none is shown.",
     [](C& c, N, V& v) { c.manager.etcd_cert_file = v.text; }},
    {"manager.etcd_key_file", KeyType::text, "\"\"", 0, 4000, "",
     "PEM file with the key of manager.etcd_cert_file.",
     [](C& c, N, V& v) { c.manager.etcd_key_file = v.text; }},
    {"manager.rejoin_grace_ms", KeyType::integer, "30000", 1, kDayMs, "",
     "A daemon that is away keeps its slots for so long, in milliseconds.",
     [](C& c, N, V& v) { c.manager.rejoin_grace_ms = u32(v); }},
    {"manager.member_timeout_ms", KeyType::integer, "1000", 20, kDayMs, "",
     "A daemon that the manager has not heard for so long is away, in milliseconds.",
     [](C& c, N, V& v) { c.manager.member_timeout_ms = u32(v); }},
    {"metrics.listen", KeyType::text, "\"\"", 0, 64, "",
     "Where numbers are shown over HTTP (/ for people, /metrics for Prometheus, /healthz, "
     "/readyz): a numeric address and port, or a port alone, which is one of 127.0.0.1; port 0: a "
     "free one, "
     "which simmctl status names; empty: nowhere.",
     [](C& c, N, V& v) { c.metrics.listen = v.text; }},
    {"metrics.token_file", KeyType::text, "\"\"", 0, 4000, "",
     "File with the token that readers of the status page give, mode 0600, with letters, digits "
     "and -._~+/= alone; @name for a credential handed over by the service manager; empty: the "
     "page is for readers on this host, and names no tenant.",
     [](C& c, N, V& v) { c.metrics.token_file = v.text; }},
    {"metrics.host_names", KeyType::texts, "\"\"", 0, 1000, "",
     "Names by which browsers reach the status page, besides localhost and the address that it is "
     "at: a name, or a list of names.",
     [](C& c, N, V& v) { c.metrics.host_names = v.text; }},
    {"trace.endpoint", KeyType::text, "\"\"", 0, 400, "",
     "Receiver of OpenTelemetry traces, as http://host:4318 or https://host:4318, which is told of "
     "operations of clients by OTLP/HTTP in JSON; empty: nobody is.",
     [](C& c, N, V& v) { c.trace.endpoint = v.text; }},
    {"trace.ca_file", KeyType::text, "\"\"", 0, 4000, "",
     "PEM file with the authorities that may sign the receiver's certificate; empty: those of the "
     "system.",
     [](C& c, N, V& v) { c.trace.ca_file = v.text; }},
    {"trace.one_in", KeyType::integer, "0", 0, 1'000'000'000, "",
     "Of the operations that their client calls part of no trace, the receiver is told of one of "
     "so "
     "many; 0: of none.",
     [](C& c, N, V& v) { c.trace.one_in = u32(v); }},
    {"trace.per_second", KeyType::integer, "10", 1, 10'000, "",
     "The most operations of a tenant that the receiver is told of in a second, by each data "
     "agent, whatever clients ask for.",
     [](C& c, N, V& v) { c.trace.per_second = u32(v); }},
    {"events.keys", KeyType::choice, "\"off\"", 0, 0, kKeyEventsNames,
     "Whether those who administer the daemon may follow which keys are stored and removed, as "
     "hashes (simmctl events --keys); and clients, those of their own tenant.",
     [](C& c, N, V& v) { c.events.keys = static_cast<KeyEventsMode>(v.choice); }},
    {"log.level", KeyType::choice, "\"info\"", 0, 0, kLogLevelNames,
     "The least important lines that are written.",
     [](C& c, N, V& v) { c.log.level = static_cast<LogLevel>(v.choice); }},
    {"log.format", KeyType::choice, "\"text\"", 0, 0, kLogFormatNames,
     "How lines are written: for people, or an object of JSON each.",
     [](C& c, N, V& v) { c.log.format = static_cast<LogFormat>(v.choice); }},
};
// clang-format on

struct FormerName {
  std::string_view path;
  std::string_view name;
};
constexpr FormerName kFormerNames[] = {{"node.cache_linger_ms", "flight_linger_ms"}};

}  // namespace

std::span<const KeySpec> config_keys() {
  return kKeys;
}

std::string_view former_name(std::string_view path) noexcept {
  for (const FormerName& former : kFormerNames) {
    if (former.path == path) return former.name;
  }
  return {};
}

}  // namespace simm::base
