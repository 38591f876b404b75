// Real daemons with a namespace that is kept twice: owners die, and what was put stays a hit. Every
// byte is looked at.
#include <doctest/doctest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/page_load.h"
#include "tests/process/cluster/steady_reader.h"
#include "tests/support/temporary_directory.h"

namespace replicas_test {

using namespace cluster_processes;
using simm::Status;

constexpr int kPages = 400;
constexpr const char* kTwice =
    R"(, "namespaces": [{"name": "", "immutable": true, "replicas": 2}])";

struct ReplicatedCluster {
  // `pool`: of each storage daemon. `grace_ms`: how long a dead one keeps its slots.
  explicit ReplicatedCluster(int grace_ms, std::string pool = "64MiB")
      : pool_bytes(std::move(pool)), cluster(grace_ms, kTwice) {
    REQUIRE(cluster.manager.start());
    for (const char* name : {"a", "b", "c", "d"}) join(name);
    REQUIRE(node->start());
    settle();
  }
  void join(const std::string& name) {
    owners.push_back(cluster.storage(
        name, kTwice + std::string(R"(, "node": {"hugepages": "off", "pool_bytes": ")") +
                  pool_bytes + "\"}"));
    REQUIRE(owners.back()->start());
  }
  void kill_first() {
    owners.front()->signal(SIGKILL);
    owners.front()->wait();
    owners.erase(owners.begin());
  }
  void settle() {
    REQUIRE(eventually([&] {
      for (const auto& owner : owners) {
        if (!uses_the_map_of(*owner, cluster.manager)) return false;
      }
      return uses_the_map_of(*node, cluster.manager) && sees_members(*node, owners.size());
    }));
  }
  [[nodiscard]] std::uint64_t sum(const std::string& counter) const {
    std::uint64_t all = 0;
    for (const auto& owner : owners) all += owner->counter(counter);
    return all;
  }
  // Counters are told some time later.
  [[nodiscard]] bool holds(std::uint64_t objects) const {
    return eventually([&] { return sum("store.0.objects") == objects; });
  }
  // The slots of the dead have owners, which have been given copies.
  void refill() {
    settle();
    CHECK(eventually([&] { return sum("refills.0.slots") == 0; }));
  }

  const std::string pool_bytes;
  ClusterProcesses cluster;
  std::vector<std::unique_ptr<DaemonProcess>> owners;
  std::unique_ptr<DaemonProcess> node = cluster.node("n", "0", kTwice);
};

TEST_CASE("a killed owner costs no miss of what is kept twice: at once, and when its slots move") {
  ReplicatedCluster world(1'500);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  CHECK(world.holds(2 * kPages));
  SteadyReader reader(*world.node, kPages);
  REQUIRE(eventually([&] { return reader.hits > kPages; }));

  for (int death = 0; death < 2; ++death) {
    world.kill_first();
    const int after = reader.hits + reader.misses;
    REQUIRE(eventually([&] { return reader.hits + reader.misses > after + kPages; }));
    world.refill();
    MESSAGE("after " << death + 1 << " deaths: " << reader.hits.load() << " hits, "
                     << reader.misses.load()
                     << " misses; copies made again: " << world.sum("refills.0.objects"));
    CHECK(world.holds(2 * kPages));
  }
  reader.end();
  CHECK(reader.misses == 0);
  CHECK(reader.failures == 0);
  CHECK(checker.count(kPages, Status::ok) == kPages);
  CHECK(world.node->counter("engine.0.asked_other") > 0);
}

TEST_CASE("puts and removes while an owner is away, and what they mean") {
  ReplicatedCluster world(60'000);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  REQUIRE(checker.remove(0) == Status::ok);
  REQUIRE(checker.remove(0) == Status::not_found);
  REQUIRE(checker.get(0) == Status::not_found);

  world.kill_first();
  REQUIRE(eventually([&] { return !sees_members(*world.node, 4); }));
  Checker more(*world.node, "more/");
  CHECK(more.put_all(kPages, Status::ok) == kPages);
  CHECK(more.count(kPages, Status::ok) == kPages);
  CHECK(world.node->counter("engine.0.single_writes") > 0);
  // Of an object whose owner is away nobody knows whether it is gone.
  int gone = 0;
  int unknown = 0;
  for (int page = 1; page < kPages; ++page) {
    const Status status = checker.remove(page);
    gone += status == Status::ok ? 1 : 0;
    unknown += status == Status::unreachable ? 1 : 0;
  }
  MESSAGE(gone << " removed, " << unknown << " not known");
  CHECK(gone + unknown == kPages - 1);
  CHECK(gone > 0);
  CHECK(unknown > 0);
  // What can be reached is gone all the same.
  CHECK(checker.count(kPages, Status::not_found) == kPages);
}

TEST_CASE("full pools: copies are made again in the place of what is used less") {
  ReplicatedCluster world(1'500, "16MiB");
  Checker old(*world.node, "old/");
  (void)old.put_all(3 * kPages, Status::ok);  // four pools hold less than 2 x 1,200 pages
  Checker checker(*world.node);
  constexpr int kUsed = kPages / 2;
  REQUIRE(checker.put_all(kUsed, Status::ok) == kUsed);
  for (int round = 0; round < 4; ++round) REQUIRE(checker.count(kUsed, Status::ok) == kUsed);
  for (int death = 0; death < 2; ++death) {
    world.kill_first();
    CHECK(checker.count(kUsed, Status::ok) == kUsed);
    world.refill();
  }
  CHECK(checker.count(kUsed, Status::ok) == kUsed);
  MESSAGE("copies made again: " << world.sum("refills.0.objects")
                                << ", refused: " << world.sum("refills.0.refused"));
}

TEST_CASE("one storage daemon keeps one copy; with a second one there are two of all") {
  ReplicatedCluster world(60'000);
  Checker checker(*world.node);
  while (world.owners.size() > 1) {
    world.owners.back()->signal(SIGTERM);
    CHECK(world.owners.back()->wait(60'000) == 0);
    world.owners.pop_back();
    world.settle();
  }
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  CHECK(world.holds(kPages));
  world.join("e");
  world.settle();
  Checker more(*world.node, "more/");
  REQUIRE(more.put_all(kPages, Status::ok) == kPages);
  CHECK(checker.count(kPages, Status::ok) == kPages);
  CHECK(world.holds(4 * kPages));
  world.kill_first();
  CHECK(more.count(kPages, Status::ok) == kPages);
  CHECK(checker.count(kPages, Status::ok) == kPages);
}

TEST_CASE("an owner comes back with its pool: it is given what was put while it was away") {
  const simm::test_support::TemporaryDirectory directory("/dev/shm");
  ClusterProcesses cluster(60'000, kTwice);
  REQUIRE(cluster.manager.start());
  const auto storage = [&](const std::string& name) {
    return cluster.storage(
        name, kTwice + std::string(R"(, "node": {"hugepages": "off", "pool_bytes": "64MiB", )") +
                  R"("pool_path": ")" + directory / name + "\"}");
  };
  auto a = storage("a");
  auto b = storage("b");
  const auto node = cluster.node("n", "0", kTwice);
  REQUIRE(a->start());
  REQUIRE(b->start());
  REQUIRE(node->start());
  REQUIRE(eventually([&] { return sees_members(*node, 2); }));
  Checker old(*node, "old/");
  REQUIRE(old.put_all(kPages, Status::ok) == kPages);
  const auto before = cluster.manager.report("status")["manager"]["epoch"];

  b->signal(SIGKILL);
  b->wait();
  REQUIRE(eventually([&] { return !sees_members(*node, 2); }));
  Checker checker(*node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  b = storage("b");
  REQUIRE(b->start());
  REQUIRE(eventually([&] { return b->counter("store.0.objects") == 2 * kPages; }));
  // It has kept its slots, and what it had.
  CHECK(eventually([&] { return a->counter("refills.0.slots") == 0; }));
  CHECK(cluster.manager.report("status")["manager"]["epoch"] > before);
  REQUIRE(eventually([&] { return sees_members(*node, 2); }));
  CHECK(a->counter("refills.0.objects") >= kPages);
  // What is removed stays away, and the other owner is not needed any more.
  for (int page = 0; page < 20; ++page) CHECK(checker.remove(page) == Status::ok);
  a->signal(SIGKILL);
  a->wait();
  CHECK(checker.count(kPages, Status::ok) == kPages - 20);
  CHECK(old.count(kPages, Status::ok) == kPages);
}

TEST_CASE("drained into one daemon: what is removed does not come back with its second copy") {
  ReplicatedCluster world(60'000);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  CHECK(world.holds(2 * kPages));
  while (world.owners.size() > 1) {
    world.owners.back()->signal(SIGTERM);
    CHECK(world.owners.back()->wait(60'000) == 0);
    world.owners.pop_back();
    world.settle();
  }
  // Both copies are there now.
  CHECK(world.holds(2 * kPages));
  CHECK(checker.count(kPages, Status::ok) == kPages);
  for (int page = 0; page < kPages; ++page) CHECK(checker.remove(page) == Status::ok);
  CHECK(world.holds(0));
  // Some reads begin with the second copies.
  for (int round = 0; round < 4; ++round) {
    CHECK(checker.count(kPages, Status::not_found) == kPages);
  }
}

}  // namespace replicas_test
