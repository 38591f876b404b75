// What a session leaves behind when its daemon has gone: no busy descriptor, no memory.
#include <doctest/doctest.h>
#include <poll.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fault_world.h"

namespace fault_test {

// How often a loop on the descriptor is woken for nothing before it may sleep; kWakesMost: for
// ever.
constexpr int kWakesMost = 20'000;
int idle_wakes(Client& client) {
  const int fd = client.completion_fd();
  for (int wakes = 0; wakes < kWakesMost; ++wakes) {
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, 20) == 0) return wakes;
    CHECK(client.poll() == 0);
  }
  return kWakesMost;
}

TEST_CASE("the descriptor of an idle Client is quiet after the daemon's death and its return") {
  World world;
  Client other = Client::connect(world.options).value();
  REQUIRE(other.completion_fd() >= 0);
  const auto run_batches = [&](std::uint32_t count) {
    const std::string_view key = "k";
    std::vector<PageResult> results(count);
    std::vector<simm::Completed> out(count);
    for (PageResult& result : results) {
      REQUIRE(world.client->exists_async({&key, 1}, {&result, 1}, within(20'000)).has_value());
    }
    for (std::size_t got = 0; got < count; got += world.client->drain(out)) world.client->wait(100);
  };
  REQUIRE(world.client->completion_fd() >= 0);
  run_batches(8);  // on all of the lanes
  CHECK(idle_wakes(*world.client) < kWakesMost);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    world.die();
    CHECK(idle_wakes(*world.client) < kWakesMost);
    CHECK_FALSE(world.client->attached());  // noticed without any call
    CHECK(idle_wakes(other) < kWakesMost);
    world.come_back();
    REQUIRE(world.wait_until_back());
    run_batches(1);
    CHECK(idle_wakes(*world.client) < kWakesMost);
    CHECK(idle_wakes(other) < kWakesMost);
  }
}

int mappings_of(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find(name) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST_CASE("a session that has ended is kept by no lane once another one is in use") {
  World world;
  const auto ping_on_each_lane = [&] {  // each new thread begins with the next one
    for (int i = 0; i < 4; ++i) std::thread([&] { (void)world.client->ping(); }).join();
  };
  const std::string_view key = "k";
  std::vector<PageResult> results(8);
  std::vector<simm::Completed> out(8);
  ping_on_each_lane();
  for (PageResult& result : results) {
    REQUIRE(world.client->exists_async({&key, 1}, {&result, 1}).has_value());
  }
  while (world.client->pending() != 0) (void)world.client->drain(out);
  CHECK(mappings_of("fake-session") == 2);  // the daemon's and ours
  world.die();
  world.come_back();
  REQUIRE(world.wait_until_back());
  (void)world.client->drain(out);
  CHECK(mappings_of("fake-session") == 2);
  ping_on_each_lane();
  CHECK(world.client->stats().attaches == 2);
}

}  // namespace fault_test
