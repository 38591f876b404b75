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
    {"threading.mode", KeyType::choice, "\"shared\"", 0, 0, "shared|dedicated",
     "shared: all data agents in one loop on one thread; dedicated: one thread each.",
     [](C& c, N, V& v) { c.threading.mode = static_cast<Threading>(v.choice); }},
    {"threading.data_agents", KeyType::integer, "1", 1, kDataAgentsMax, "",
     "How many data agents; each owns sessions and one shard of the store.",
     [](C& c, N, V& v) { c.threading.data_agents = u32(v); }},
    {"threading.cpus", KeyType::integers, "[]", 0, 1023, "",
     "CPUs for the data threads, in turn; empty: the kernel chooses.",
     [](C& c, N, V& v) { c.threading.cpus = v.list; }},
    {"wait.mode", KeyType::choice, "\"adaptive\"", 0, 0, "spin|adaptive|event",
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
    {"tenants[].in_flight_bytes_max", KeyType::bytes, "\"4GiB\"", 1 << 20, 1LL << 50, "",
     "Bytes of this tenant's operations that may be under way at once.",
     [](C& c, N i, V& v) { c.tenants.at(i).in_flight_bytes_max = v.share.bytes; }},
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
     "Memory for objects of this node: bytes, a size, or a percentage of the host's memory.",
     [](C& c, N, V& v) { c.node.pool_bytes = v.share; }},
    {"node.hugepages", KeyType::choice, "\"try\"", 0, 0, "off|try|require",
     "Huge pages for the pool: never, when there are enough, or fail without them.",
     [](C& c, N, V& v) { c.node.hugepages = static_cast<HugepageMode>(v.choice); }},
    {"node.numa", KeyType::integer, "-1", -1, 1023, "",
     "NUMA node of the pool; -1: wherever the data agents run.",
     [](C& c, N, V& v) { c.node.numa = static_cast<std::int32_t>(v.number); }},
    {"node.prefault", KeyType::boolean, "false", 0, 0, "",
     "Touch the whole pool at start instead of page by page when it is first used.",
     [](C& c, N, V& v) { c.node.prefault = v.flag; }},
    {"store.lease_default_ms", KeyType::integer, "15000", 0, kDayMs, "",
     "Lease that a successful exists or get grants when the caller names none, in milliseconds.",
     [](C& c, N, V& v) { c.store.lease_default_ms = u32(v); }},
    {"store.lease_max_ms", KeyType::integer, "60000", 0, kDayMs, "",
     "Longest lease a caller can ask for, in milliseconds.",
     [](C& c, N, V& v) { c.store.lease_max_ms = u32(v); }},
    {"store.lease_budget_percent", KeyType::integer, "50", 0, 100, "",
     "Share of the pool that leases may keep from eviction, in percent; then the oldest goes.",
     [](C& c, N, V& v) { c.store.lease_budget_percent = u32(v); }},
    {"store.eviction_watermark_percent", KeyType::integer, "98", 10, 100, "",
     "Eviction begins when more of the pool is in use, in percent.",
     [](C& c, N, V& v) { c.store.eviction_watermark_percent = u32(v); }},
    {"store.objects_max", KeyType::integer, "0", 0, 1LL << 31, "",
     "Objects the index has room for; 0: by the size of the pool.",
     [](C& c, N, V& v) { c.store.objects_max = u32(v); }},
    {"store.verify", KeyType::choice, "\"sampled\"", 0, 0, "never|sampled|always",
     "Checksums on get: never, one in 64, or every time.",
     [](C& c, N, V& v) { c.store.verify = static_cast<VerifyMode>(v.choice); }},
    {"session.lanes_default", KeyType::integer, "8", 1, ipc::kLanesMax, "",
     "Lanes of a session that asks for no number; a lane serves one caller at a time.",
     [](C& c, N, V& v) { c.session.lanes_default = u32(v); }},
    {"session.sessions_max", KeyType::integer, "256", 1, 65'535, "",
     "Sessions per listening socket; more wait in its queue.",
     [](C& c, N, V& v) { c.session.sessions_max = u32(v); }},
    {"session.regions_max", KeyType::integer, "4096", 1, ipc::kRegionsMax, "",
     "Memory regions per session.", [](C& c, N, V& v) { c.session.regions_max = u32(v); }},
    {"session.handshake_ms", KeyType::integer, "1000", 10, 60'000, "",
     "Time a connection has to attach, in milliseconds.",
     [](C& c, N, V& v) { c.session.handshake_ms = u32(v); }},
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
     "Copy private client memory through a helper process (process_vm_readv).",
     [](C& c, N, V& v) { c.memory.foreign = v.flag; }},
    {"memory.adopt", KeyType::boolean, "true", 0, 0, "",
     "Open existing shared mappings of clients through the adopt helper.",
     [](C& c, N, V& v) { c.memory.adopt = v.flag; }},
    {"memory.map_bytes_max", KeyType::bytes, "\"16TiB\"", 1 << 20, 1LL << 50, "",
     "Bytes of client memory that one session may have mapped.",
     [](C& c, N, V& v) { c.memory.map_bytes_max = v.share.bytes; }},
    {"memory.touch_budget_bytes", KeyType::bytes, "\"64MiB\"", 0, 1LL << 50, "",
     "Absent client pages that the daemon makes present by touching, per session.",
     [](C& c, N, V& v) { c.memory.touch_budget_bytes = v.share.bytes; }},
    {"hash_seed", KeyType::integer, "0", 0, INT64_MAX, "",
     "Seed of key hashes; daemons of one cluster share it; 0: drawn at every start.",
     [](C& c, N, V& v) { c.hash_seed = static_cast<std::uint64_t>(v.number); }},
    {"log.level", KeyType::choice, "\"info\"", 0, 0, "error|warning|info|debug",
     "The least important lines that are written.",
     [](C& c, N, V& v) { c.log.level = static_cast<LogLevel>(v.choice); }},
};
// clang-format on

}  // namespace

std::span<const KeySpec> config_keys() {
  return kKeys;
}

}  // namespace simm::base
