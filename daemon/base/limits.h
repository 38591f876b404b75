// Every bound of the daemon that is not a size of the shared layout (those are in ipc/layout.h). A
// bound has a name, a default, and a counter "limit.<name>.reached" that says how often somebody
// ran into it. A limit that can be configured has its default in config_table.cpp instead and its
// counter here. Thread: reached() from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/counters.h"

namespace simm::base {

// Sizes of tables and queues that are not configurable.
inline constexpr std::uint32_t kSocketsMax = 64;         // listening sockets
inline constexpr std::uint32_t kTenantsMax = 64;         // configured tenants
inline constexpr std::uint32_t kOwnersListedMax = 1024;  // daemons named by `owners`
// Those, the default one, and one for each socket that names its own. Every table of tenants has
// this size, so none is full while a tenant can still come.
inline constexpr std::uint32_t kTenantsServedMax = 1 + kTenantsMax + kSocketsMax;
inline constexpr std::uint32_t kNicsConfiguredMax = 64;          // listed in the configuration
inline constexpr std::uint32_t kNamespacesConfiguredMax = 1024;  // by `namespaces`
inline constexpr std::uint32_t kNamespacesPerTenantMax = 256;    // open in any of its sessions
inline constexpr std::uint32_t kUnauthenticatedMax = 64;   // per listening socket, in handshake
inline constexpr std::uint32_t kHellosMax = 2048;          // per cluster port, at each stage
inline constexpr std::uint32_t kHelloDescriptorsPart = 8;  // or that part of all descriptors
inline constexpr std::uint32_t kDataAgentsMax = 64;
inline constexpr std::uint32_t kMailboxMessages = 1024;   // between two agents
inline constexpr std::uint32_t kRegistrarJobsMax = 1024;  // waiting for a registrar thread
inline constexpr std::uint32_t kAdminConnectionsMax = 16;
inline constexpr std::uint32_t kKeySubscribersMax = 8;       // of key events, by the admin socket
inline constexpr std::uint32_t kKeyFollowersMax = 16;        // the same in sessions, of one tenant
inline constexpr std::uint32_t kMetricsConnectionsMax = 32;  // to metrics.listen
inline constexpr std::uint32_t kDistinctErrorsMax = 256;
inline constexpr std::uint32_t kErrorsOfSiteMax = 32;  // of these, that one place may take

// What the control thread counts. Data agents count theirs where they happen: "session.N.held_*",
// "engine.N.*", "server.N.*", "store.N.*".
enum class Limit : std::uint8_t {
  sessions_per_socket,
  unauthenticated_per_socket,
  hellos_per_port,
  regions_per_session,
  region_pin_bytes,
  namespaces_per_tenant,
  registrar_jobs,
  admin_connections,
  descriptors,
  metrics_connections,
  session_memory_bytes,
  key_subscribers,
};
inline constexpr std::size_t kLimitCount = 12;

inline constexpr std::string_view limit_name(Limit limit) noexcept {
  constexpr std::array<std::string_view, kLimitCount> kNames = {
      "sessions_per_socket", "unauthenticated_per_socket", "hellos_per_port",
      "regions_per_session", "region_pin_bytes",           "namespaces_per_tenant",
      "registrar_jobs",      "admin_connections",          "descriptors",
      "metrics_connections", "session_memory_bytes",       "key_subscribers"};
  return kNames[static_cast<std::size_t>(limit)];
}

class LimitCounters {
public:
  LimitCounters() = default;  // counts into unread cells
  explicit LimitCounters(CounterSet& counters) {
    for (std::size_t i = 0; i < kLimitCount; ++i) {
      const std::string name(limit_name(static_cast<Limit>(i)));
      reached_[i] = counters.counter(
          "limit." + name + ".reached",
          {"simm_limit_reached_total", "Times that somebody met a limit."}, "limit=" + name);
    }
  }

  void reached(Limit limit) noexcept { reached_[static_cast<std::size_t>(limit)].add_shared(); }

private:
  std::array<Counter, kLimitCount> reached_;
};

}  // namespace simm::base
