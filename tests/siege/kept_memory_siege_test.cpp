// Clients that attach, keep the memory of the session, hang up, and do it again. The daemon made
// that memory, so its cgroup would pay for as much of it as the clients like.
#include <doctest/doctest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace kept_memory {

using test_support::eventually;
using test_support::RawClient;

constexpr const char* kBytes = "control.session_memory.bytes";

std::uint64_t bound_of(const TwoTenantDaemon& daemon) {
  for (const auto& limit : daemon.report("limits")) {
    if (limit["limit"] == "session_memory_bytes") return limit["value"].get<std::uint64_t>();
  }
  return 0;
}

TEST_CASE("clients that keep the memory of their sessions fill their tenant's bound, no more") {
  TwoTenantDaemon daemon(R"("session": {"sessions_max": 16, "lanes_default": 8})");
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(3));
  const std::uint64_t bound = bound_of(daemon);
  REQUIRE(bound > 0);
  const std::uint64_t honest = daemon.counter(kBytes);

  std::vector<int> kept;
  int refused = 0;
  for (int attach = 0; attach < 200; ++attach) {
    RawClient client(daemon.red_socket());
    if (!client.attach(ipc::kLanesMax)) {
      ++refused;
      continue;
    }
    kept.push_back(::dup(client.memory_fd()));
    CHECK(daemon.counter(kBytes) <= bound + honest);
  }
  CHECK(refused >= 180);
  CHECK(daemon.counter("limit.session_memory_bytes.reached") >= 180);
  // Whoever is of another tenant attaches and works.
  for (int i = 0; i < 10; ++i) CHECK(lets_in(daemon.blue_socket()));
  CHECK(victim.does_rounds(3));

  for (const int fd : kept) ::close(fd);
  CHECK(eventually([&] { return daemon.counter(kBytes) <= honest; }));
  CHECK(lets_in(daemon.red_socket()));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
}

}  // namespace kept_memory
}  // namespace simm::siege
