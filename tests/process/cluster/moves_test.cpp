// Real daemons whose slots move: who joins gets the objects with the slots, who drains gives them.
// Every byte is looked at.
#include <doctest/doctest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/page_load.h"
#include "tests/process/cluster/steady_reader.h"

namespace moves_test {

using namespace cluster_processes;
using simm::Status;

constexpr int kPages = 400;
constexpr const char* kPool = R"(, "node": {"hugepages": "off", "pool_bytes": "64MiB"})";

struct MovingCluster {
  // `bytes_per_s`: how fast storage daemons send what moves.
  explicit MovingCluster(const std::string& bytes_per_s = "512MiB") : rate(bytes_per_s) {
    REQUIRE(cluster.manager.start());
    for (const char* name : {"a", "b", "c"}) join(name);
    REQUIRE(node->start());
    settle();
  }
  std::unique_ptr<DaemonProcess> make(const std::string& name) const {
    std::string keys = cluster.member_keys(name);
    keys.insert(keys.rfind('}'), ", \"move_bytes_per_s\": \"" + rate + "\"");
    return std::make_unique<DaemonProcess>(keys + kPool + ", \"drain_ms\": 60000", "storage");
  }
  void join(const std::string& name) {
    owners.push_back(make(name));
    REQUIRE(owners.back()->start());
  }
  void settle() {
    REQUIRE(eventually([&] {
      for (const auto& owner : owners) {
        if (!uses_the_map_of(*owner, cluster.manager)) return false;
      }
      return uses_the_map_of(*node, cluster.manager) && sees_members(*node, owners.size());
    }));
  }
  std::uint64_t sum(const std::string& counter) const {
    std::uint64_t all = 0;
    for (const auto& owner : owners) all += owner->counter(counter);
    return all;
  }
  // Slots have left, and nothing of them is on its way any more.
  void finish_moves() {
    settle();
    CHECK(eventually([&] {
      for (const auto& owner : owners) {
        if (owner->report("status")["cluster"]["departing_slots"] != 0) return false;
      }
      return true;
    }));
  }

  const std::string rate;
  ClusterProcesses cluster;
  std::vector<std::unique_ptr<DaemonProcess>> owners;
  std::unique_ptr<DaemonProcess> node = cluster.node("n");
};

TEST_CASE("from three owners to four under load, and back by a drain: what was a hit stays one") {
  MovingCluster world;
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  REQUIRE(checker.count(kPages, Status::ok) == kPages);
  PageLoad load;
  load.write(*world.node, "w/");
  load.read(*world.node, "w/");

  world.join("d");
  world.finish_moves();
  const std::uint64_t moved_in = world.owners.back()->counter("server.0.moved_in_objects");
  const int after_join = checker.count(kPages, Status::ok);
  MESSAGE("hits after the join: " << after_join << " of " << kPages << ", objects moved "
                                  << moved_in);
  CHECK(after_join == kPages);
  CHECK(moved_in >= kPages / 8);
  CHECK(world.sum("moves.0.cold_slots") == 0);

  world.owners.front()->signal(SIGTERM);
  CHECK(world.owners.front()->wait(60'000) == 0);
  CHECK(world.owners.front()->log().find("work is left undone") == std::string::npos);
  const std::string log = world.owners.front()->log();
  CHECK(log.find("objects of lost slots move to the new owners") != std::string::npos);
  CHECK(log.find("the move of objects is over") != std::string::npos);
  world.owners.erase(world.owners.begin());
  world.settle();
  const int after_drain = checker.count(kPages, Status::ok);
  MESSAGE("hits after the drain: " << after_drain << " of " << kPages);
  CHECK(after_drain == kPages);
  load.check();
}

TEST_CASE("gets while objects move are hits: a join, and a daemon that stops") {
  MovingCluster world("2MiB");  // so that most is still on its way when it is asked for
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  REQUIRE(checker.count(kPages, Status::ok) == kPages);
  SteadyReader reader(*world.node, kPages);
  REQUIRE(eventually([&] { return reader.hits > kPages; }));

  world.join("d");
  world.finish_moves();
  const auto waited = [&] { return world.sum("server.0.read_through_hits"); };
  const auto text = [&] {
    return std::to_string(reader.hits) + " hits, " + std::to_string(reader.misses) + " misses (" +
           std::to_string(world.sum("server.0.misses")) + " of an owner), " +
           std::to_string(waited()) + " of the hits waited for their object, " +
           std::to_string(world.sum("server.0.read_through_misses")) + " waited in vain, " +
           std::to_string(world.sum("server.0.read_through_late")) + " late";
  };
  MESSAGE("join: " << text());
  // None, but on a machine on which processes wait for each other. Without waiting there are some
  // hundreds.
  CHECK(reader.misses <= SteadyReader::kMissesMax);
  CHECK(reader.failures == 0);

  world.owners.front()->signal(SIGTERM);
  CHECK(world.owners.front()->wait(60'000) == 0);
  world.owners.erase(world.owners.begin());
  world.settle();
  const int hits = reader.hits;
  REQUIRE(eventually([&] { return reader.hits + reader.misses > hits + kPages; }));
  reader.end();
  MESSAGE("stop: " << text());
  CHECK(reader.misses <= SteadyReader::kMissesMax);
  CHECK(reader.failures == 0);
  CHECK(waited() > 0);
  CHECK(world.sum("server.0.read_through_asked") > 0);
}

TEST_CASE("what is removed or replaced while it moves does not come back") {
  MovingCluster world("2MiB");  // so that most is still on its way
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  world.join("d");
  world.settle();
  int removed = 0;
  for (int page = 0; page < kPages; page += 2) {
    if (checker.remove(page) != Status::unreachable) ++removed;
  }
  CHECK(removed == kPages / 2);
  world.finish_moves();
  for (int page = 0; page < kPages; page += 2) CHECK(checker.get(page) == Status::not_found);
  for (int page = 1; page < kPages; page += 2) CHECK(checker.get(page) == Status::ok);
}

TEST_CASE("the death of either side in the middle of a move costs misses, and nothing else") {
  MovingCluster world("1MiB");
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  world.join("d");
  world.settle();
  REQUIRE(
      eventually([&] { return world.owners.back()->counter("server.0.moved_in_objects") > 0; }));
  std::size_t victim = 0;
  SUBCASE("a former owner") {}
  SUBCASE("the new owner") {
    victim = 3;
  }
  world.owners[victim]->signal(SIGKILL);
  CHECK(world.owners[victim]->wait() == 1000 + SIGKILL);
  const int hits = checker.count(kPages, Status::ok);
  const int misses = checker.count(kPages, Status::not_found);
  CHECK(hits > 0);
  CHECK(misses > 0);
  // Its successor begins empty, and everything can be put again.
  REQUIRE(world.owners[victim]->start());
  REQUIRE(eventually([&] { return checker.put_all(kPages, Status::ok) == kPages; }));
  CHECK(checker.count(kPages, Status::ok) == kPages);
}

}  // namespace moves_test
