// Every attack of one client on the others, beside a victim of another tenant: in one daemon, and
// through a node of a cluster.
#include <doctest/doctest.h>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/siege/attacks.h"
#include "tests/siege/siege.h"

namespace simm::siege {
namespace attack_siege {

struct Named {
  const char* name;
  void (*attack)(const Place& place, const Until& until);
};

constexpr Named kAttacks[] = {
    {"short deadlines", attack_by_short_deadlines},
    {"lingering sockets", attack_by_lingering_sockets},
    {"long deadlines", attack_by_long_deadlines},
    {"kept session memory", attack_by_kept_session_memory},
    {"slow punches", attack_by_slow_punches},
    {"many tenants", attack_by_many_tenants},
    {"idle lanes", attack_by_idle_lanes},
    {"long keys", attack_by_long_keys},
    {"registrations", attack_by_registrations},
    {"a locked directory", attack_by_a_locked_directory},
    {"a stranger's directory", attack_by_a_strangers_directory},
    {"all sessions of a user", attack_by_all_sessions_of_a_user},
    {"descriptors", attack_by_descriptors},
    {"last references", attack_by_last_references},
    {"attach flood", attack_by_attach_flood},
    {"garbage", attack_by_garbage},
};

TEST_CASE("one daemon: whatever a client does, a client of another tenant is served right") {
  test_support::DaemonProcess daemon(besieged_keys());
  const bool has_started = daemon.start();
  REQUIRE_MESSAGE(has_started, daemon.log());
  const Place place(daemon);
  Siege siege("all", place);
  for (const Named& one : kAttacks) siege.endure(one.name, one.attack);
}

TEST_CASE("a cluster: whatever a client does, a client of another tenant is served right") {
  using namespace cluster_processes;
  ClusterProcesses cluster;
  const auto storage = cluster.storage("a");
  const auto node = cluster.node("n", "0", ", " + besieged_keys());
  REQUIRE(cluster.manager.start());
  REQUIRE(storage->start());
  const bool has_started = node->start();
  REQUIRE_MESSAGE(has_started, node->log());
  REQUIRE(eventually(
      [&] { return uses_the_map_of(*node, cluster.manager) && sees_members(*node, 1); }));
  const Place place(*node, {storage.get()});
  Siege siege("cluster", place);
  for (const Named& one : kAttacks) siege.endure(one.name, one.attack);
  CHECK(storage->alive());
}

}  // namespace attack_siege
}  // namespace simm::siege
