// Partitions: a manager, two storage daemons and two nodes, each on a host of its own (network
// namespaces), and packets between two of them that are dropped one way or both, while clients of
// both nodes write and read. No byte is wrong, no old version comes back, no call is too long, and
// afterwards everything is as before. SIMM_ROUNDS: how many; SIMM_SEED: which.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/page_load.h"
#include "tests/support/network_namespaces.h"

namespace partition_test {

using namespace cluster_processes;
using simm::Status;
using simm::test_support::eventually;
using simm::test_support::NetworkNamespaces;

constexpr int kPages = 48;

enum Host : std::size_t { kManager, kA, kB, kNode, kOther, kHostCount };
constexpr std::array<const char*, kHostCount> kNames = {"manager", "a", "b", "node", "other"};

struct Hosts {
  explicit Hosts(int grace_ms) : grace_ms_(grace_ms) {
    if (!network.ready()) return;
    for (std::size_t host = 0; host < kHostCount; ++host) {
      daemons[host] = std::make_unique<DaemonProcess>(keys(host), role(host));
      daemons[host]->enter_network(network.path(host));
      if (!daemons[host]->start()) FAIL(kNames[host] << ": " << daemons[host]->log());
    }
    REQUIRE(settles());
  }
  static std::string role(std::size_t host) {
    return host == kManager ? "manager" : host <= kB ? "storage" : "node";
  }
  std::string keys(std::size_t host) const {
    const std::string manager = NetworkNamespaces::address(kManager) + ":30001";
    const std::string cluster = "\"cluster\": {\"secret_file\": \"" + secret.path() +
                                "\", \"node_name\": \"" + kNames[host] + "\"";
    if (host == kManager) {
      return cluster + "}, \"manager\": {\"listen\": \"" + manager +
             "\", \"member_timeout_ms\": " + std::to_string(std::min(grace_ms_, 1000)) +
             ", \"rejoin_grace_ms\": " + std::to_string(grace_ms_) + "}";
    }
    const std::string member = cluster + ", \"manager\": \"" + manager + "\"";
    if (host <= kB) {
      return member + ", \"listen\": \"" + NetworkNamespaces::address(host) + ":30002\"}";
    }
    return member + "}, \"node\": {\"pool_bytes\": 0}" + kEngineKeys;
  }

  // Everybody has the newest map and every connection.
  bool settles() {
    const auto is_settled = [&] {
      for (std::size_t host = kA; host < kHostCount; ++host) {
        if (!uses_the_map_of(*daemons[host], *daemons[kManager])) return false;
      }
      return sees_members(*daemons[kNode], 2) && sees_members(*daemons[kOther], 2);
    };
    return eventually(is_settled);
  }
  DaemonProcess& operator[](std::size_t host) { return *daemons[host]; }

  const int grace_ms_;
  SecretFile secret;
  NetworkNamespaces network{kHostCount};
  std::array<std::unique_ptr<DaemonProcess>, kHostCount> daemons;
};

struct Partition {
  std::size_t one;
  std::size_t another;
  bool is_deaf = false;  // `another` does not hear `one`
  bool is_mute = false;  // nor is it heard

  [[nodiscard]] std::string text() const {
    return std::string(kNames[one]) + (is_mute ? " <" : " ") + "-" + (is_deaf ? "> " : " ") +
           kNames[another];
  }
};

// Each kind of pair in each direction in some order, and then any.
std::vector<Partition> draw(std::mt19937_64& random, std::size_t rounds) {
  const std::vector<std::vector<std::pair<Host, Host>>> kinds = {
      {{kNode, kA}, {kNode, kB}, {kOther, kA}, {kOther, kB}},
      {{kA, kManager}, {kB, kManager}},
      {{kNode, kManager}, {kOther, kManager}}};
  std::vector<Partition> partitions;
  for (std::size_t round = 0; round < std::max<std::size_t>(rounds, 9); ++round) {
    const auto& kind = kinds[round % 3];
    const auto [one, another] = kind[random() % kind.size()];
    const std::size_t way = round < 9 ? round / 3 : random() % 3;
    partitions.push_back({one, another, way != 1, way != 0});
  }
  std::shuffle(partitions.begin(), partitions.end(), random);
  partitions.resize(rounds);
  return partitions;
}

TEST_CASE("partition: hosts that do not hear each other for a while, under load") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = simm::test_support::rounds_from("SIMM_ROUNDS", 12);
  Hosts hosts(600);
  if (!hosts.network.ready()) return;
  MESSAGE("SIMM_SEED=" << seed << " SIMM_ROUNDS=" << rounds
                       << " process_partition -tc='partition: hosts*'");
  std::mt19937_64 random(seed);
  const auto sleep_ms = [&](std::uint64_t least, std::uint64_t most) {
    ::usleep(static_cast<useconds_t>(1000 * (least + random() % (most - least))));
  };
  PageLoad load;
  load.write(hosts[kNode], "short/");
  load.write(hosts[kNode], "long/", PageLoad::kLongPageBytes);
  load.write(hosts[kOther], "other/");
  load.read(hosts[kOther], "long/", PageLoad::kLongPageBytes);
  load.read(hosts[kNode], "other/");
  for (const Partition& partition : draw(random, rounds)) {
    INFO(partition.text());
    if (partition.is_deaf) hosts.network.block(partition.one, partition.another);
    if (partition.is_mute) hosts.network.block(partition.another, partition.one);
    sleep_ms(200, 2500);
    hosts.network.mend();
    // The next one comes while the cluster is still busy with this one, or afterwards.
    if (random() % 2 == 0) {
      CHECK(hosts.settles());
    } else {
      sleep_ms(20, 400);
    }
  }
  CHECK(hosts.settles());
  load.check();
  Checker after(hosts[kNode]);
  Checker elsewhere(hosts[kOther]);
  CHECK(after.put_all(kPages, Status::ok) == kPages);
  CHECK(elsewhere.count(kPages, Status::ok) == kPages);
  for (const Host node : {kNode, kOther}) {
    CHECK(hosts[node].counter("engine.0.fences_overdue") == 0);
    CHECK(hosts[node].counter("engine.0.corrupt") == 0);
  }
}

TEST_CASE("partition: what one node does not reach, the other one still reads, and none is lost") {
  Hosts hosts(30'000);
  if (!hosts.network.ready()) return;
  Checker near(hosts[kNode]);
  Checker far(hosts[kOther]);
  REQUIRE(near.put_all(kPages, Status::ok) == kPages);
  const int on_a = static_cast<int>(hosts[kA].counter("server.0.put_pages"));
  REQUIRE(on_a > 0);
  for (const std::size_t way : {0U, 1U, 2U}) {
    if (way != 1) hosts.network.block(kNode, kA);
    if (way != 0) hosts.network.block(kA, kNode);
    CHECK(near.count(kPages, Status::not_found) == on_a);
    CHECK(near.put_all(kPages, Status::unreachable) == on_a);
    CHECK(far.count(kPages, Status::ok) == kPages);
    hosts.network.mend();
    CHECK(eventually([&] { return near.count(kPages, Status::ok) == kPages; }));
  }
  // The manager is cut off from everybody: nobody needs it.
  const auto epoch = hosts[kNode].report("status")["cluster"]["epoch"];
  for (const std::size_t host : {kA, kB, kNode, kOther}) hosts.network.block(kManager, host);
  CHECK(eventually([&] {
    return hosts[kNode].report("status")["cluster"]["state"] == "alone, with the last map";
  }));
  CHECK(near.put_all(kPages, Status::ok) == kPages);
  CHECK(far.count(kPages, Status::ok) == kPages);
  hosts.network.mend();
  CHECK(hosts.settles());
  CHECK(hosts[kNode].report("status")["cluster"]["epoch"] == epoch);
  CHECK(near.count(kPages, Status::ok) == kPages);
}

}  // namespace partition_test
