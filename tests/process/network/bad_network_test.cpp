// Real daemons on a network that is slow, loses, damages and cuts what they say to each other, in
// this test's own relay: what clients see is a miss or right bytes, in time, and when the network
// is well again so is everything else.
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/process/cluster/page_load.h"
#include "tests/process/network/relayed_cluster.h"

namespace bad_network_test {

using namespace network_tests;
using simm::Status;
using simm::test_support::RelayTrouble;
using simm::test_support::RelayWay;
using std::chrono::milliseconds;

constexpr int kPages = RelayedCluster::kPages;

RelayTrouble late(int ms) {
  RelayTrouble trouble;
  trouble.delay = milliseconds(ms);
  return trouble;
}
RelayTrouble narrow(std::uint64_t bytes_per_s) {
  RelayTrouble trouble;
  trouble.bytes_per_s = bytes_per_s;
  return trouble;
}
RelayTrouble black_hole() {
  RelayTrouble trouble;
  trouble.swallows = true;
  return trouble;
}
RelayTrouble stuck() {
  RelayTrouble trouble;
  trouble.holds = true;
  return trouble;
}
RelayTrouble damaged(std::uint64_t every_bytes) {
  RelayTrouble trouble;
  trouble.damage_every_bytes = every_bytes;
  return trouble;
}

std::string state_of(const DaemonProcess& daemon) {
  return daemon.report("status")["cluster"].value("state", "");
}

// Everything can be stored again and is found.
void check_recovered(RelayedCluster& world, Checker& checker) {
  CHECK(world.settles());
  CHECK(eventually([&] {
    return checker.put_all(kPages, Status::ok) == kPages &&
           checker.count(kPages, Status::ok) == kPages;
  }));
  CHECK(world.node.process.counter("engine.0.fences_overdue") == 0);
}

TEST_CASE("a far and narrow network: everything is late, and right") {
  constexpr int kFew = 16;
  RelayedCluster world;
  for (RelayedDaemon* one : {&world.a, &world.b, &world.node}) {
    RelayTrouble far = late(50);
    far.bytes_per_s = 8'000'000;
    one->data.make_both(far);
    one->manager.make_both(far);
  }
  PageLoad load;
  load.write(world.node.process, "short/");
  load.write(world.node.process, "long/", PageLoad::kLongPageBytes);
  Checker checker = world.checker();
  CHECK(eventually([&] {
    return checker.put_all(kFew, Status::ok) == kFew && checker.count(kFew, Status::ok) == kFew;
  }));
  load.check();
}

TEST_CASE("a narrow line that moves is waited for, with the default options") {
  constexpr std::size_t kPage = 4'500'000;
  constexpr std::size_t kCount = 32;
  RelayedCluster world(30'000, 1, R"(, "node": {"pool_bytes": "256MiB", "hugepages": "off"})",
                       10'000);
  for (RelayedDaemon* one : {&world.a, &world.b}) one->data.make_both(narrow(37'000'000));
  simm::ClientOptions options;
  options.socket_path = world.node.process.socket();
  simm::Client client = simm::Client::connect(options).value();
  simm::Region region = client.allocate_region(kCount * kPage).value();
  std::string prefix;  // with `__k` behind a hash the reads are shared ones
  std::string suffix;
  SUBCASE("each reader for itself") {
    prefix = "page/";
  }
  SUBCASE("one fetch for the node") {
    prefix = "0123456789abcdef0123456789abcd";
    suffix = "__k";
  }
  std::vector<std::string> keys;
  std::vector<simm::Item> items;
  for (std::size_t i = 0; i < kCount; ++i) keys.push_back(prefix + std::to_string(10 + i) + suffix);
  for (std::size_t i = 0; i < kCount; ++i) {
    items.push_back({keys[i], simm::View(region, i * kPage, kPage), 0, 0});
    std::memset(region.data() + i * kPage, static_cast<int>(i + 1), kPage);
  }
  std::vector<simm::PageResult> results(kCount);
  // Longer than a line of 0.4 GB/s needs for them, and a second: what would be given up if it
  // stood.
  const auto check_slow = [&](auto&& call) {
    const auto began = std::chrono::steady_clock::now();
    CHECK(call() == Status::ok);
    CHECK(std::chrono::steady_clock::now() - began > milliseconds(1000 + kCount * kPage / 400'000));
    for (const simm::PageResult& page : results) CHECK(page.status == Status::ok);
  };
  check_slow([&] { return client.put(items, results); });
  std::memset(region.data(), 0, region.size());
  check_slow([&] { return client.get(items, results); });
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::vector<std::byte> expected(kPage, static_cast<std::byte>(i + 1));
    CHECK(std::memcmp(region.data() + i * kPage, expected.data(), kPage) == 0);
  }
  CHECK(world.node.process.counter("engine.0.extended") > 0);
}

TEST_CASE("what a storage daemon is told or answers is lost: misses, until the way is mended") {
  RelayedCluster world;
  Checker checker = world.checker();
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(world.a.process.counter("server.0.put_pages"));
  REQUIRE(on_a > 0);
  PageLoad load;
  load.write(world.node.process, "load/");
  load.write(world.node.process, "long/", PageLoad::kLongPageBytes);
  const std::vector<std::vector<RelayWay>> directions = {
      {RelayWay::to_server}, {RelayWay::to_caller}, {RelayWay::to_server, RelayWay::to_caller}};
  // Ended by the peer's silence, or by a call of the load whose deadline came before.
  const auto links_lost = [&] {
    return world.node.process.counter("cluster.links.lost_silent") +
           world.node.process.counter("cluster.links.lost_reset");
  };
  for (const auto& lost : directions) {
    const std::uint64_t before = links_lost();
    for (const RelayWay way : lost) world.a.data.make(way, black_hole());
    // The first ones wait for as long as it takes to find out, and no longer: that is not their
    // deadline. Those after them are told at once.
    CHECK(checker.count(kPages, Status::not_found) == on_a);
    CHECK(links_lost() > before);
    CHECK(world.open_to("a") == 0);
    CHECK(checker.put_all(kPages, Status::unreachable) == on_a);
    CHECK(checker.count(kPages, Status::ok) == kPages - on_a);
    world.a.data.mend();
    // It has lost nothing meanwhile.
    CHECK(eventually([&] { return checker.count(kPages, Status::ok) == kPages; }));
  }
  load.check();
  check_recovered(world, checker);
}

TEST_CASE("half-open: daemons die, and their peers' connections stay") {
  RelayedCluster world;
  Checker checker = world.checker();
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(world.a.process.counter("server.0.put_pages"));
  world.a.data.conceal_ends(true);
  world.a.manager.conceal_ends(true);
  world.a.process.signal(SIGKILL);
  CHECK(world.a.process.wait() == 1000 + SIGKILL);
  CHECK(checker.count(kPages, Status::not_found) == on_a);
  CHECK(checker.count(kPages, Status::ok) == kPages - on_a);
  CHECK(world.node.process.counter("cluster.links.lost_silent") > 0);
  // The manager still has a connection to the dead one, and takes its successor nevertheless.
  REQUIRE(world.a.process.start());
  check_recovered(world, checker);

  // The same with nodes: each successor's connections end those of the ones before it.
  const auto connections_to_a = [&] {
    int count = 0;
    const auto report = world.a.process.report("peers");
    for (const auto& requester : report["askers"]) {
      count += requester["connections"].get<int>();
    }
    return count;
  };
  const int live = connections_to_a();
  for (int life = 0; life < 3; ++life) {
    world.node.process.signal(SIGKILL);
    CHECK(world.node.process.wait() == 1000 + SIGKILL);
    REQUIRE(world.node.process.start());
    REQUIRE(world.settles());
    Checker again(world.node.process);
    CHECK(again.count(kPages, Status::ok) == kPages);
  }
  CHECK(eventually([&] { return connections_to_a() == live; }));
  CHECK(world.a.process.counter("cluster.links.lost_superseded") > 0);
  world.a.data.mend();
  world.a.manager.mend();
  Checker last = world.checker();
  check_recovered(world, last);
  CHECK(eventually([&] { return connections_to_a() == live; }));
}

TEST_CASE("damaged on its way: a miss or a new connection, and never a wrong byte") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t damages = 3 * simm::test_support::rounds_from("SIMM_ROUNDS", 12);
  MESSAGE("SIMM_SEED=" << seed << " process_network -tc='damaged*'");
  RelayedCluster world(30'000, seed);
  PageLoad load;
  load.write(world.node.process, "short/");
  load.write(world.node.process, "long/", PageLoad::kLongPageBytes);
  load.read(world.node.process, "long/", PageLoad::kLongPageBytes);
  for (RelayedDaemon* one : {&world.a, &world.b, &world.node}) {
    one->data.make_both(damaged(300'000));
    one->manager.make_both(damaged(5'000));
  }
  const auto noticed = [&](const char* what) {
    return world.a.process.counter(what) + world.b.process.counter(what) +
           world.node.process.counter(what);
  };
  CHECK(eventually([&] {
    return world.a.data.damages() + world.b.data.damages() >= damages &&
           world.node.manager.damages() > 0 && world.a.manager.damages() > 0 &&
           noticed("cluster.links.lost_protocol") > 0 && noticed("engine.0.corrupt") > 0;
  }));
  for (RelayedDaemon* one : {&world.a, &world.b, &world.node}) {
    one->data.mend();
    one->manager.mend();
  }
  load.check();
  Checker checker = world.checker();
  check_recovered(world, checker);
}

TEST_CASE("a manager that nobody reaches: everybody works on with the last map") {
  RelayedCluster world(30'000, 1, "", RelayedCluster::kPatientMs);
  Checker checker = world.checker();
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const auto epoch = world.node.process.report("status")["cluster"]["epoch"];
  for (const bool is_cut : {true, false}) {
    PageLoad load;
    load.write(world.node.process, is_cut ? "cut/" : "stuck/");
    for (RelayedDaemon* one : {&world.a, &world.b, &world.node}) {
      if (is_cut) {
        one->manager.cut();
      } else {
        one->manager.make(RelayWay::to_caller, stuck());
      }
    }
    for (RelayedDaemon* one : {&world.a, &world.b, &world.node}) {
      CHECK(eventually([&] { return state_of(one->process) == "alone, with the last map"; }));
    }
    CHECK(checker.count(kPages, Status::ok) == kPages);
    CHECK(checker.put_all(kPages, Status::ok) == kPages);
    load.check();
    CHECK(load.findings.failed == 0);
    for (RelayedDaemon* one : {&world.a, &world.b, &world.node}) one->manager.mend();
    CHECK(eventually([&] { return state_of(world.node.process) == "joined"; }));
    CHECK(world.settles());
    CHECK(world.node.process.report("status")["cluster"]["epoch"] == epoch);
    CHECK(checker.count(kPages, Status::ok) == kPages);
  }
}

TEST_CASE("a storage daemon cut off from the manager alone keeps its slots: the node reaches it") {
  RelayedCluster world(600, 1, "", RelayedCluster::kPatientMs);
  Checker checker = world.checker();
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const auto member = [&] {
    const nlohmann::json report = world.manager.report("nodes");
    for (const nlohmann::json& daemon : report["nodes"]) {
      if (daemon["name"] == "a") return daemon;
    }
    return nlohmann::json(nlohmann::json::object());
  };
  const auto epoch = world.node.process.report("status")["cluster"]["epoch"];
  world.a.manager.cut();
  // Ten graces.
  CHECK(eventually([&] { return member().value("away_ms", 0) > 6'000; }));
  CHECK(world.node.process.report("status")["cluster"]["epoch"] == epoch);
  CHECK(checker.count(kPages, Status::ok) == kPages);
  CHECK(checker.put_all(kPages, Status::ok) == kPages);
  world.a.manager.mend();
  CHECK(world.settles());
  CHECK(world.node.process.report("status")["cluster"]["epoch"] == epoch);
}

TEST_CASE("a storage daemon cut off from everybody: its slots move, and nothing old returns") {
  RelayedCluster world(600);
  PageLoad load;
  load.write(world.node.process, "load/");
  load.write(world.node.process, "long/", PageLoad::kLongPageBytes);
  Checker checker = world.checker();
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const auto owners = [&] {
    const auto slots = world.node.process.report("slots");
    return slots.is_object() ? slots["members"].size() : 0;  // an error while nobody answers
  };
  for (int time = 0; time < 2; ++time) {
    world.a.manager.cut();
    world.a.data.cut();
    CHECK(eventually([&] { return owners() == 1; }));
    CHECK(eventually([&] { return checker.put_all(kPages, Status::ok) == kPages; }));
    CHECK(checker.count(kPages, Status::ok) == kPages);
    CHECK(state_of(world.a.process) == "alone, with the last map");
    world.a.manager.mend();
    world.a.data.mend();
    CHECK(eventually([&] { return owners() == 2; }));
  }
  load.check();
  check_recovered(world, checker);
}

TEST_CASE("one trouble after the other, under load") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = simm::test_support::rounds_from("SIMM_ROUNDS", 12);
  MESSAGE("SIMM_SEED=" << seed << " SIMM_ROUNDS=" << rounds
                       << " process_network -tc='one trouble*'");
  std::mt19937_64 random(seed);
  RelayedCluster world(600, seed);
  PageLoad load;
  load.write(world.node.process, "short/");
  load.write(world.node.process, "long/", PageLoad::kLongPageBytes);
  load.read(world.node.process, "long/", PageLoad::kLongPageBytes);
  const std::vector<NetworkRelay*> relays = {&world.a.data,      &world.b.data,    &world.a.data,
                                             &world.b.data,      &world.a.manager, &world.b.manager,
                                             &world.node.manager};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    NetworkRelay& relay = *relays[random() % relays.size()];
    const std::vector<RelayTrouble> troubles = {late(30 + static_cast<int>(random() % 400)),
                                                narrow(200'000), black_hole(), stuck(),
                                                damaged(20'000)};
    const std::uint64_t drawn = random() % (troubles.size() + 3);
    if (drawn == troubles.size()) {
      relay.cut();
    } else if (drawn == troubles.size() + 1) {
      relay.reset();
    } else if (drawn == troubles.size() + 2) {
      relay.conceal_ends(true);
      relay.make(RelayWay::to_caller, damaged(2'000));
    } else {
      const std::uint64_t ways = random() % 3;
      if (ways != 0) relay.make(RelayWay::to_caller, troubles[drawn]);
      if (ways != 1) relay.make(RelayWay::to_server, troubles[drawn]);
    }
    ::usleep(static_cast<useconds_t>(1000 * (100 + random() % 900)));
    relay.mend();
    ::usleep(static_cast<useconds_t>(1000 * (random() % 500)));
  }
  Checker checker = world.checker();
  check_recovered(world, checker);
  load.check();
}

}  // namespace bad_network_test
