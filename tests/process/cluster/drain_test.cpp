// Storage daemons that are asked to drain, and go on serving: step by step their slots and objects
// go to others. Deadlines, cancels, deaths in the middle, and rounds of all of that. Every byte is
// looked at.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/page_load.h"
#include "tests/process/cluster/steady_reader.h"

namespace drain_test {

using namespace cluster_processes;
using nlohmann::json;
using simm::Status;
using simm::test_support::rounds_from;

constexpr int kPages = 500;

struct DrainingCluster {
  // `rate`: how fast a storage daemon sends what moves.
  explicit DrainingCluster(std::string rate, int grace_ms = 30'000)
      : rate_(std::move(rate)), cluster(grace_ms) {
    REQUIRE(cluster.manager.start());
    for (const char* name : {"a", "b", "c"}) join(name);
    REQUIRE(node->start());
    settle();
  }
  DaemonProcess& join(const std::string& name) {
    std::string keys = cluster.member_keys(name);
    keys.insert(keys.rfind('}'), ", \"move_bytes_per_s\": \"" + rate_ + "\"");
    owners.push_back(std::make_unique<DaemonProcess>(
        keys + R"(, "node": {"hugepages": "off", "pool_bytes": "64MiB"})", "storage"));
    REQUIRE(owners.back()->start());
    return *owners.back();
  }
  // `gone`: but for that one, which has ended.
  void settle(std::size_t gone = ~std::size_t{0}) {
    REQUIRE(eventually([&] {
      for (const auto& owner : owners) {
        if (gone < owners.size() && owner == owners[gone]) continue;
        if (!uses_the_map_of(*owner, cluster.manager)) return false;
        const auto status = owner->report("status")["cluster"];
        if (status["departing_slots"] != 0) return false;
      }
      return uses_the_map_of(*node, cluster.manager);
    }));
  }
  // Empty: it does not answer.
  json moves(const std::string& name) const {
    json report = node->report("moves", "storage/" + name);
    return report.is_object() ? report : json::object();
  }
  std::string drain(const std::string& argument) const { return node->ask("drain", argument); }
  void begin(const std::string& name, int deadline_ms = 0) const {
    const json argument = {{"daemon", "storage/" + name}, {"deadline_ms", deadline_ms}};
    const std::string answer = drain(argument.dump());
    REQUIRE_MESSAGE(json::accept(answer), answer);
  }
  void cancel(const std::string& name) const {
    const json argument = {{"daemon", "storage/" + name}, {"cancel", true}};
    const std::string answer = drain(argument.dump());
    REQUIRE_MESSAGE(json::accept(answer), answer);
  }
  // Until the step that was under way has ended: only then are the slots wanted back.
  void wait_for_cancel(const std::string& name) const {
    CHECK(eventually([&] {
      const json state = moves(name)["state"];
      return state == "still" || state == "moving";
    }));
  }
  // Its last report.
  json wait_for_end(const std::string& name) const {
    json report;
    CHECK(eventually([&] {
      report = moves(name);
      return report["state"].is_string() && report["state"] != "draining";
    }));
    return report;
  }

  const std::string rate_;
  ClusterProcesses cluster;
  std::vector<std::unique_ptr<DaemonProcess>> owners;
  std::unique_ptr<DaemonProcess> node = cluster.node("n");
};

// Hits and puts of a load in a second.
class Pace {
public:
  explicit Pace(const PageLoad& load) : load_(load) {}
  void begin() {
    since_ = std::chrono::steady_clock::now();
    before_ = done();
  }
  [[nodiscard]] double per_second() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - since_;
    return static_cast<double>(done() - before_) / passed.count();
  }

private:
  [[nodiscard]] std::uint64_t done() const { return load_.findings.hits + load_.findings.puts; }
  const PageLoad& load_;
  std::chrono::steady_clock::time_point since_;
  std::uint64_t before_ = 0;
};

TEST_CASE("a drain on request loses nothing under load, and its end gives the slots back") {
  DrainingCluster world("4MiB");
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  PageLoad load;
  load.write(*world.node, "w/");
  load.read(*world.node, "w/");
  Pace pace(load);
  pace.begin();
  REQUIRE(eventually([&] { return load.findings.puts > 400; }));
  const double before = pace.per_second();
  const int slots_before = world.moves("a")["slots"];
  CHECK(world.moves("a")["state"] == "still");

  pace.begin();
  world.begin("a");
  json last = world.moves("a");
  CHECK(last["state"] == "draining");
  CHECK(world.drain(R"({"daemon": "storage/a"})").find("it drains already") == 0);
  // It serves what it still has: slots become fewer and not none at once.
  bool was_between = false;
  bool had_eta = false;
  CHECK(eventually([&] {
    last = world.moves("a");
    was_between |= last["slots"] > 0 && last["slots"] < slots_before;
    had_eta |= last["eta_ms"].is_number() && last["left_objects"] > 0;
    return last["state"].is_string() && last["state"] != "draining";
  }));
  const double during = pace.per_second();
  CHECK(was_between);
  CHECK(had_eta);
  MESSAGE("foreground while draining: " << during / before << " of " << before << " a second; "
                                        << last.dump());
  CHECK(last["state"] == "drained");
  CHECK(last["slots"] == 0);
  CHECK(last["left_objects"] == 0);
  CHECK(last["moved_objects"] >= kPages / 4);
  CHECK(last["cold_slots"] == 0);
  CHECK(last["lost_objects"] == 0);
  CHECK(world.owners[0]->alive());
  world.settle();
  const int hits = checker.count(kPages, Status::ok);
  MESSAGE("hits after the drain: " << hits << " of " << kPages);
  CHECK(hits >= kPages - kPages / 100);
  CHECK(world.drain(R"({"daemon": "storage/a"})").find("it has drained already") == 0);
  const std::string events = world.owners[0]->ask("events", "-250");
  CHECK(events.find("drain_begun") != std::string::npos);
  CHECK(events.find("drain_ended") != std::string::npos);
  CHECK(world.cluster.manager.ask("events", "-250").find("member_draining") != std::string::npos);

  world.cancel("a");
  CHECK(eventually([&] { return world.moves("a")["slots"] >= slots_before - 1; }));
  CHECK(world.moves("a")["state"] == "still");
  world.settle();
  CHECK(checker.count(kPages, Status::ok) >= kPages - kPages / 100);
  CHECK(world.drain(R"({"daemon": "storage/a", "cancel": true})").find("it does not drain") == 0);
  load.check();
}

TEST_CASE("gets during a drain on request are hits") {
  DrainingCluster world("2MiB");
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  SteadyReader reader(*world.node, kPages);
  REQUIRE(eventually([&] { return reader.hits > kPages; }));
  world.begin("a");
  CHECK(world.wait_for_end("a")["state"] == "drained");
  world.settle();
  reader.end();
  std::uint64_t waited = 0;
  for (const auto& owner : world.owners) waited += owner->counter("server.0.read_through_hits");
  MESSAGE("drain: " << reader.hits.load() << " hits, " << reader.misses.load() << " misses, "
                    << waited << " of the hits waited for their object");
  CHECK(reader.misses <= SteadyReader::kMissesMax);
  CHECK(reader.failures == 0);
  CHECK(waited > 0);
}

TEST_CASE("a drain that is cancelled in the middle leaves a normal member") {
  DrainingCluster world("1MiB");
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  const int slots_before = world.moves("b")["slots"];
  world.begin("b");
  REQUIRE(eventually([&] { return world.moves("b")["moved_objects"] > 5; }));
  CHECK(world.moves("b")["state"] == "draining");
  world.cancel("b");
  // What is on its way arrives first.
  CHECK(eventually([&] { return world.moves("b")["slots"] >= slots_before - 1; }));
  world.settle();
  const int hits = checker.count(kPages, Status::ok);
  MESSAGE("hits after the cancel: " << hits << " of " << kPages);
  CHECK(hits == kPages);
  // And again, to its end.
  world.begin("b", 600'000);
  CHECK(world.moves("b")["deadline_ms"] > 0);
  world.cancel("b");
}

TEST_CASE("what a deadline leaves behind are misses, and said") {
  DrainingCluster world("1MiB");
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  world.begin("a", 1500);
  const json last = world.wait_for_end("a");
  CHECK(last["state"] == "cut short");
  CHECK(last["slots"] == 0);
  const int lost = last["lost_objects"];
  CHECK(lost > 0);
  CHECK(last["moved_objects"] > 0);
  world.settle();
  const int misses = checker.count(kPages, Status::not_found);
  CHECK(misses > 0);
  CHECK(misses <= lost);  // some were on their way
  CHECK(checker.count(kPages, Status::ok) == kPages - misses);
  CHECK(checker.put_all(kPages, Status::ok) == kPages);
}

TEST_CASE("who can not drain is told why") {
  DrainingCluster world("512MiB");
  CHECK(world.drain(R"({"daemon": "storage/x"})").find("no daemon 'storage/x'") == 0);
  CHECK(world.drain(R"({"daemon": "node/n"})").find("node/n has no pool") == 0);
  CHECK(world.drain("{}").find("node/n has no pool") == 0);
  CHECK(world.drain("what").find("drain: this is no JSON object") == 0);
  CHECK(world.cluster.manager.ask("drain", "{}").find("unknown command") == 0);
  for (const char* name : {"a", "b"}) {
    world.begin(name);
    CHECK(world.wait_for_end(name)["state"] == "drained");
  }
  CHECK(world.owners[2]->ask("drain", "{}").find("storage/c is the last daemon") == 0);
  world.begin("c");
  CHECK(world.wait_for_end("c")["slots"] == 0);
  for (const char* name : {"a", "b", "c"}) world.cancel(name);
  world.settle();
  Checker checker(*world.node);
  CHECK(eventually([&] { return checker.put_all(20, Status::ok) == 20; }));
}

TEST_CASE("a death in the middle of a drain costs misses, and nothing hangs") {
  DrainingCluster world("1MiB", 1000);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  PageLoad load;
  load.write(*world.node, "w/");
  world.begin("a");
  REQUIRE(eventually([&] { return world.moves("a")["moved_objects"] > 5; }));
  std::size_t victim = 0;
  SUBCASE("of the daemon that drains") {}
  SUBCASE("of one that takes its objects") {
    victim = 1;
  }
  SUBCASE("of the manager, which comes back") {
    victim = 9;
  }
  DaemonProcess& dying = victim == 9 ? world.cluster.manager : *world.owners[victim];
  dying.signal(SIGKILL);
  CHECK(dying.wait() == 1000 + SIGKILL);
  const int hits = checker.count(kPages, Status::ok);
  CHECK(hits > 0);
  REQUIRE(dying.start());
  if (victim == 0) {
    // Its successor knows of no drain.
    CHECK(eventually([&] { return world.moves("a")["state"] == "still"; }));
  } else {
    CHECK(eventually([&] { return world.moves("a")["state"] == "drained"; }));
  }
  world.settle();
  if (victim == 9) CHECK(checker.count(kPages, Status::ok) >= kPages - kPages / 100);
  // Slots of who came back may still move, and their objects are misses meanwhile.
  CHECK(eventually([&] {
    return checker.put_all(kPages, Status::ok) == kPages &&
           checker.count(kPages, Status::ok) == kPages;
  }));
  load.check();
}

// Ten times as many with scripts/test.sh --long.
TEST_CASE(
    "rounds of joins, drains, cancels and deaths: no wrong byte, and what was a hit stays one") {
  const auto seed = static_cast<std::uint32_t>(number_from("SIMM_SEED", std::random_device{}()));
  const std::uint64_t rounds = rounds_from("SIMM_DRAINS", 4);
  MESSAGE("SIMM_SEED=" << seed << ", " << rounds << " rounds");
  std::mt19937 dice(seed);
  DrainingCluster world("16MiB", 1000);
  Checker checker(*world.node);
  REQUIRE(checker.put_all(kPages, Status::ok) == kPages);
  PageLoad load;
  load.write(*world.node, "w/");
  load.read(*world.node, "w/");
  const std::vector<std::string> names = {"a", "b", "c"};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::size_t at = dice() % names.size();
    const std::uint32_t what = dice() % 4;
    CAPTURE(seed);
    CAPTURE(round);
    CAPTURE(names[at]);
    CAPTURE(what);
    bool loses = false;
    world.begin(names[at]);
    if (what > 0) CHECK(world.wait_for_end(names[at])["state"] == "drained");
    if (what == 1) {  // it leaves, and comes back as another one
      world.owners[at]->signal(SIGTERM);
      CHECK(world.owners[at]->wait(60'000) == 0);
      world.settle(at);
      CHECK(checker.count(kPages, Status::ok) >= kPages - kPages / 100);
      REQUIRE(world.owners[at]->start());
    } else if (what == 3) {  // it dies when it has nothing any more
      world.owners[at]->signal(SIGKILL);
      CHECK(world.owners[at]->wait() == 1000 + SIGKILL);
      REQUIRE(world.owners[at]->start());
    } else {
      world.cancel(names[at]);
      world.wait_for_cancel(names[at]);
    }
    if (dice() % 5 == 0) {
      loses = true;
      const std::size_t victim = dice() % names.size();
      world.owners[victim]->signal(SIGKILL);
      CHECK(world.owners[victim]->wait() == 1000 + SIGKILL);
      REQUIRE(world.owners[victim]->start());
    }
    // Who came back has slots, and objects that followed them.
    CHECK(eventually([&] {
      return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        const json report = world.moves(name);
        return report.contains("slots") && report["slots"] > 5000;
      });
    }));
    world.settle();
    const int hits = checker.count(kPages, Status::ok);
    if (!loses) CHECK(hits >= kPages - kPages / 100);
    REQUIRE(eventually([&] { return checker.put_all(kPages, Status::ok) == kPages; }));
  }
  load.check();
}

}  // namespace drain_test
