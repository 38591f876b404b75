// Memory that is registered beside a daemon that does not answer: the region is there, and the
// daemon hears of it when it is back.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fault_world.h"

namespace fault_test {

// Long enough for a busy machine to attach; the registration waits for so long.
constexpr std::uint32_t kAnswerMs = 1000;

struct StoppedWorld : World {
  StoppedWorld() : World(true) {
    client.reset();
    options.connect_timeout_ms = kAnswerMs;
    client.emplace(Client::connect(options).value());
    daemon->stop();
  }
  std::vector<std::byte> memory = std::vector<std::byte>(8192, std::byte{'v'});
};

TEST_CASE("stopped daemon: memory that is registered meanwhile comes to it when it is back") {
  StoppedWorld world;
  Region region = world.client->register_region(world.memory.data(), 8192).value();
  CHECK(region.kind() == RegionKind::staged);
  CHECK(region.kind_reason().find("away") != std::string::npos);
  CHECK_FALSE(world.client->attached());
  world.daemon->go_on();
  REQUIRE(world.wait_until_back());
  CHECK(region.kind() == RegionKind::adopted);
  CHECK(world.client->put("k", View(world.memory.data(), 100)).ok());
  CHECK(world.store->value("/k") == std::string(100, 'v'));
}

TEST_CASE("stopped daemon: memory that has to be adopted is refused") {
  StoppedWorld world;
  simm::RegisterOptions exact;
  exact.kind = RegionKind::adopted;
  CHECK(world.client->register_region(world.memory.data(), 8192, exact).status() ==
        Status::timeout);
  world.daemon->go_on();
  REQUIRE(world.wait_until_back());
  CHECK(world.client->register_region(world.memory.data(), 8192, exact).status() == Status::ok);
}

TEST_CASE(
    "a daemon that came back: a region that goes before the daemon has answered is forgotten") {
  World world(true);
  std::vector<std::byte> memory(8192);
  std::optional<Region> region = world.client->register_region(memory.data(), 8192).value();
  REQUIRE(world.daemon->counts().regions == 1);
  world.die();
  REQUIRE(world.client->ping() == Status::unreachable);
  world.come_back();
  world.daemon->stop_at_region();
  std::thread attaching([&] { CHECK(world.wait_until_back()); });
  world.daemon->wait_until_at_region();
  region.reset();
  world.daemon->go_on();
  attaching.join();
  CHECK(world.daemon->counts().regions == 0);
  // The one before it in the same memory was not restored, and does not stand in the way.
  CHECK(world.client->register_region(memory.data(), 8192).value().kind() == RegionKind::adopted);
}

}  // namespace fault_test
