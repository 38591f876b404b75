// Staging memory is asked for in the middle of calls: a daemon that does not answer holds up none
// of them, and nobody else, past their deadline.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "fault_world.h"

namespace fault_test {

// Long before the limit of control requests, long after everything that does not wait for it.
constexpr std::uint32_t kConnectMs = 120'000;
constexpr std::chrono::seconds kFarAway(60);

struct StagedWorld : World {
  StagedWorld() {
    client.reset();
    options.connect_timeout_ms = kConnectMs;
    client.emplace(Client::connect(options).value());
    region = client->register_region(memory.data(), memory.size()).value();
    REQUIRE(region.kind() == RegionKind::staged);
    attaches = client->stats().attaches;
  }
  std::vector<std::byte> memory = std::vector<std::byte>(64 * 1024, std::byte{'v'});
  Region region;
  std::uint64_t attaches = 0;
};

TEST_CASE("stopped daemon, no staging memory yet: the call ends at its deadline, nothing is lost") {
  StagedWorld world;
  world.daemon->stop();
  const auto start = Clock::now();
  CHECK(world.client->put("k", View(world.region, 0, 3000), within(100)).status == Status::timeout);
  CHECK(std::string(simm::last_error()).find("stopped") != std::string::npos);
  ClientOptions patient = world.options;
  patient.sync_timeout_ms = 100;
  Client other = Client::connect(patient).value();
  CHECK(other.put("k", View(world.region, 0, 3000)).status == Status::timeout);
  CHECK(Clock::now() - start < kFarAway);
  world.daemon->go_on();
  CHECK(world.client->put("k", View(world.region, 0, 3000), within(20'000)).ok());
  CHECK(world.client->get("k", View(world.region, 4096, 3000), within(20'000)).ok());
  CHECK(world.client->stats().attaches ==
        world.attaches);  // one caller's short deadline is not the others'
}

TEST_CASE("stopped daemon, no staging memory yet: batches, other Clients and fork() do not wait") {
  StagedWorld world;
  Client other = Client::connect(world.options).value();
  const int fd = world.client->completion_fd();
  world.daemon->stop();
  const auto start = Clock::now();
  const Item item{"k", View(world.region, 0, 3000), 0, 0};
  PageResult result;
  REQUIRE(world.client->put_async({&item, 1}, {&result, 1}, within(100)).has_value());
  CHECK(other.poll() == 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  CHECK(::waitpid(child, nullptr, 0) == child);
  std::vector<simm::Completed> out(1);
  while (world.client->drain(out) == 0) {
    pollfd entry{fd, POLLIN, 0};
    REQUIRE(::poll(&entry, 1, 5000) == 1);
  }
  CHECK(out[0].status == Status::timeout);
  CHECK(result.status == Status::timeout);
  CHECK(Clock::now() - start < kFarAway);
  world.daemon->go_on();
  REQUIRE(world.client->put_async({&item, 1}, {&result, 1}, within(20'000)).has_value());
  while (world.client->drain(out) == 0) {
    pollfd entry{fd, POLLIN, 0};
    REQUIRE(::poll(&entry, 1, 5000) == 1);
  }
  CHECK(result.ok());
  CHECK(world.client->stats().attaches == world.attaches);
}

TEST_CASE("the daemon dies while staging memory is asked for: the call ends, and the next works") {
  StagedWorld world;
  world.daemon->stop();
  std::thread caller([&] {
    CHECK(world.client->put("k", View(world.region, 0, 3000), within(20'000)).status ==
          Status::unreachable);
  });
  while (world.daemon->counts().unread == 0) std::this_thread::yield();
  world.die();
  caller.join();
  world.come_back();
  REQUIRE(world.wait_until_back());
  CHECK(world.client->put("k", View(world.region, 0, 3000), within(20'000)).ok());
}

}  // namespace fault_test
