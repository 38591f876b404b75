// What a manager tells of more daemons than one answer has room for.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "daemon/cluster/cluster_codec.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace nodes_report_test {

using namespace manager_rig;
using nlohmann::json;

struct LastSent final : ManagerLinks {
  void send(ConnectionId, std::span<const std::byte> message) override {
    last.assign(message.begin(), message.end());
  }
  void close(ConnectionId, const std::string& why) override { FAIL(why); }
  Bytes last;
};

// As many owners of slots as there may be, and nodes; their names are as long as names may be.
struct Scene {
  static constexpr ConnectionId kOwners = 1000;
  static constexpr ConnectionId kDaemons = 3000;
  static constexpr ConnectionId kOld = 3;

  Scene() {
    REQUIRE(manager.start());
    for (ConnectionId id = 1; id <= kDaemons; ++id) {
      const bool owns = id <= kOwners;
      manager.on_connected(
          id, {incarnation(id), owns ? ClusterRole::storage : ClusterRole::node, name(id)},
          kHelloVersionMax);
      say(id, owns ? Join{"10.0.0.7", 30002, 2, kGiB, 0, false} : Join{});
    }
    for (int turn = 0; turn < 15; ++turn) {
      clock.advance_ns(100 * kNsPerMs);
      for (ConnectionId id = 1; id <= kDaemons; ++id) say(id, heartbeat(id));
      manager.do_work();
    }
    REQUIRE(manager.map() != nullptr);
  }
  static std::string name(ConnectionId id) {
    std::string number = std::to_string(id);
    return "a-daemon-of-a-large-cluster-" + std::string(36 - number.size(), '0') + number;
  }
  // The largest loads that there can be, but of one daemon of an older release.
  static Heartbeat heartbeat(ConnectionId id) {
    Heartbeat heartbeat;
    if (id == kOld) return heartbeat;
    heartbeat.load_ms = ~std::uint64_t{0};
    for (const base::LoadField& field : base::kLoadFields) {
      heartbeat.load.*field.sum = ~std::uint64_t{0};
    }
    heartbeat.load.batch_ns.fill(~std::uint64_t{0});
    return heartbeat;
  }
  void say(ConnectionId id, const MemberMessage& message) {
    manager.on_message(id, encode(message).value());
  }
  // As a daemon asks, and gets the answer in one message.
  json ask(const std::string& target) {
    say(kDaemons, Question{7, Topic::nodes, target});
    const auto answered = decode_manager_message(links.last);
    REQUIRE(answered.has_value());
    const Answer& answer = std::get<Answer>(*answered);
    CHECK(answer.status == simm::Status::ok);
    return json::parse(answer.text);
  }

  base::ManualClock clock;
  simm::sim::SimDisk disk;
  simm::sim::SimCoordinator coordinator{disk};
  LastSent links;
  ManagerConfig config;
  base::SeededRandom random{1};
  Manager manager{config, clock, random, coordinator, links};
};

TEST_CASE("three thousand daemons are told in pages, each of them once") {
  Scene scene;
  std::set<std::string> names;
  std::size_t told = 0;
  int pages = 0;
  for (std::string behind; pages == 0 || !behind.empty(); ++pages) {
    const json page = scene.ask("+" + behind);
    CHECK(page["epoch"] == scene.manager.map()->epoch());
    CHECK(page["nodes"].size() <= kNodesPageMax);
    for (const json& node : page["nodes"]) names.insert(node["name"]);
    told += page["nodes"].size();
    behind = page.value("next", "");
  }
  CHECK(pages == 6);
  CHECK(told == Scene::kDaemons);
  CHECK(names.size() == Scene::kDaemons);
}

TEST_CASE("with their loads they are told in more pages, each of them once") {
  Scene scene;
  std::set<std::string> names;
  std::size_t told = 0;
  std::size_t without = 0;
  for (std::string behind, sign = "="; sign == "=" || !behind.empty(); sign = "") {
    const json page = scene.ask("=" + behind);
    for (const json& node : page["nodes"]) {
      names.insert(node["name"]);
      ++told;
      if (node["load"].is_null()) {
        ++without;
        CHECK(node["name"] == Scene::name(Scene::kOld));
        continue;
      }
      CHECK(node["load"]["taken_ms"] == ~std::uint64_t{0});
      CHECK(node["load"]["counters"]["engine.0.op.get.pages.ok"] == ~std::uint64_t{0});
      CHECK(node["load"]["counters"].size() == base::kLoadFields.size() + base::Load::kBuckets);
    }
    behind = page.value("next", "");
  }
  CHECK(told == Scene::kDaemons);
  CHECK(names.size() == Scene::kDaemons);
  CHECK(without == 1);
  // Without being asked for they are not there.
  CHECK_FALSE(scene.ask("+")["nodes"].front().contains("load"));
}

TEST_CASE(
    "a daemon of an older release, which asks for no page, hears of as many as an answer holds") {
  Scene scene;
  const json all = scene.ask("");
  CHECK(all["nodes"].size() > kNodesPageMax);
  CHECK(all["nodes"].size() < Scene::kDaemons);
  const json rest = scene.ask("+" + all["next"].get<std::string>());
  CHECK(rest["nodes"].front()["name"] == Scene::name(Scene::kOwners + 1 + all["nodes"].size()));
}

}  // namespace nodes_report_test
