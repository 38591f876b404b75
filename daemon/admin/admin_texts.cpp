#include "daemon/admin/admin_texts.h"

#include <sys/resource.h>

#include <array>
#include <nlohmann/json.hpp>

#include "daemon/attach/session_memory_budget.h"
#include "daemon/base/host_memory.h"
#include "daemon/base/json_text.h"
#include "daemon/base/limits.h"
#include "daemon/base/sanitize.h"

namespace simm::control {
namespace {

using nlohmann::ordered_json;

struct LimitRow {
  std::uint64_t value;
  const char* unit;
  const char* configured_by;  // empty: fixed
};

std::uint64_t descriptors_max() {
  rlimit bound{};
  return ::getrlimit(RLIMIT_NOFILE, &bound) == 0 ? bound.rlim_cur : 0;
}

LimitRow row_of(base::Limit limit, const base::Config& config) {
  using base::Limit;
  switch (limit) {
    case Limit::sessions_per_socket:
      return {config.session.sessions_max, "sessions", "session.sessions_max"};
    case Limit::unauthenticated_per_socket:
      return {base::kUnauthenticatedMax, "connections", ""};
    case Limit::hellos_per_port:
      return {base::kHellosMax, "connections", ""};
    case Limit::regions_per_session:
      return {config.session.regions_max, "regions", "session.regions_max"};
    case Limit::region_pin_bytes:
      return {config.memory.map_bytes_max, "bytes", "memory.map_bytes_max"};
    case Limit::namespaces_per_tenant:
      return {base::kNamespacesPerTenantMax, "namespaces", ""};
    case Limit::registrar_jobs:
      return {base::kRegistrarJobsMax, "jobs", ""};
    case Limit::admin_connections:
      return {base::kAdminConnectionsMax, "connections", ""};
    case Limit::descriptors:
      return {descriptors_max(), "descriptors", "the service's LimitNOFILE"};
    case Limit::metrics_connections:
      return {base::kMetricsConnectionsMax, "connections", ""};
    case Limit::session_memory_bytes:
      return {SessionMemoryBudget::Bounds::of(config, base::HostMemory::read().usable_bytes())
                  .tenant_bytes,
              "bytes", "session.sessions_max"};
    case Limit::key_subscribers:
      return {base::kKeySubscribersMax, "followers", ""};
  }
  return {0, "", ""};
}

// What data agents count where it happens: "<section>.<agent>.<counter>".
struct AgentLimit {
  const char* name;
  const char* section;
  const char* counter;
  const char* what;
};
constexpr std::array<AgentLimit, 9> kAgentLimits = {
    {{"operations", "engine", "pool_exhausted", "batches under way on an agent"},
     {"operations_tenant", "session", "held_operations", "of a tenant, batches"},
     {"bytes_tenant", "session", "held_bytes", "of a tenant, bytes under way"},
     {"bandwidth_tenant", "session", "held_bandwidth", "of a tenant, bytes a second"},
     {"touch_bytes_session", "session", "absent_pages",
      "pages whose memory is absent: memory.touch_budget_bytes"},
     {"credit", "engine", "no_credit", "requests to one owner"},
     {"server_requests", "server", "refused_requests", "requests of a shard"},
     {"pool", "server", "no_space", "pages that found no room in time"},
     {"shared_reads", "engine", "declined", "pages that no shared read had room for"}}};

std::uint64_t sum_over_agents(const base::CounterSet& counters, const base::Config& config,
                              const AgentLimit& limit) {
  std::uint64_t sum = 0;
  for (std::uint32_t agent = 0; agent < config.threading.data_agents; ++agent) {
    sum += counters.value(std::string(limit.section) + "." + std::to_string(agent) + "." +
                          limit.counter);
  }
  return sum;
}

}  // namespace

Error no_answer_without_names() {
  return {Status::invalid_argument, "this report is not told without names of tenants"};
}

std::string config_text(const base::Config& config) {
  ordered_json all = ordered_json::array();
  for (const base::EffectiveKey& key : config.keys) {
    ordered_json value = ordered_json::parse(key.value, nullptr, false);
    // Who knows it can choose keys that collide; and such output is pasted into reports.
    if (key.path == "hash_seed" && value != 0) value = "(hidden)";
    all.push_back({{"key", key.path}, {"value", value}, {"from", key.from}});
  }
  return base::json_text(all);
}

std::string limits_text(const base::CounterSet& counters, const base::Config& config) {
  ordered_json all = ordered_json::array();
  for (std::size_t i = 0; i < base::kLimitCount; ++i) {
    const auto limit = static_cast<base::Limit>(i);
    const LimitRow row = row_of(limit, config);
    const std::string name(base::limit_name(limit));
    all.push_back({{"limit", name},
                   {"reached", counters.value("limit." + name + ".reached")},
                   {"value", row.value},
                   {"unit", row.unit},
                   {"configured_by", row.configured_by}});
  }
  for (const AgentLimit& limit : kAgentLimits) {
    all.push_back({{"limit", limit.name},
                   {"reached", sum_over_agents(counters, config, limit)},
                   {"value", nullptr},
                   {"unit", limit.what},
                   {"configured_by", ""}});
  }
  return base::json_text(all);
}

std::string metrics_text(const MetricsEndpoint* metrics) {
  const std::string address = metrics == nullptr ? std::string() : metrics->address();
  return address.empty() ? "off" : address;
}

Expected<std::string> log_text(base::Log& log, std::string_view level) {
  if (!level.empty()) {
    const auto wanted = base::parse_log_level(level);
    if (!wanted) {
      return Error{Status::invalid_argument, "level = " + base::sanitize(std::string(level), 40) +
                                                 ": write error, warning, info or debug"};
    }
    log.set_level(*wanted);
  }
  const ordered_json out = {{"level", base::log_level_name(log.level())},
                            {"suppressed", log.suppressed()}};
  return base::json_text(out);
}

std::string errors_text(const base::ErrorLog& errors, base::TimeNs now_ns) {
  ordered_json all = ordered_json::array();
  for (const base::ErrorEntry& entry : errors.entries()) {
    all.push_back({{"site", entry.site},
                   {"status", status_name(entry.status)},
                   {"text", entry.text},
                   {"first_from", entry.first_from},
                   {"count", entry.count},
                   {"first_ms_ago", (now_ns - entry.first_ns) / base::kNsPerMs},
                   {"last_ms_ago", (now_ns - entry.last_ns) / base::kNsPerMs}});
  }
  return base::json_text(ordered_json{{"errors", all}, {"dropped", errors.dropped()}});
}

}  // namespace simm::control
