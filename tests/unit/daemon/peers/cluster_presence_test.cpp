// Daemons in a cluster as their control threads see it: a manager and some presences in one
// io_context, over real loopback sockets; the test plays their data agents.
#include "daemon/peers/cluster_presence.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/base/real_clock.h"
#include "daemon/cluster/file_coordinator.h"
#include "daemon/peers/manager_service.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/daemon/peers/cluster_net.h"

namespace cluster_presence_test {

using namespace simm;
using cluster::ClusterRole;
using nlohmann::json;

constexpr std::uint64_t kGiB = 1u << 30;

// What every daemon has of its own; what it logs goes nowhere.
struct Basics {
  base::RealClock clock;
  base::SystemRandom random;
  base::CounterSet counters;
  base::ErrorLog errors{clock};
  base::LimitCounters limits{counters};
  ipc::UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  base::Log log{clock, base::LogLevel::error, null.get(), false};
  base::EventLog events{clock, log, counters};
};

// What a daemon consists of besides its cluster, and one data agent, which is the test.
struct Host : Basics {
  Host(boost::asio::io_context& io, const std::string& name, const std::string& manager,
       ClusterRole role, std::uint64_t pool_bytes)
      : config(config_of(name, manager)),
        environment{io, config, clock, counters, limits, errors, log, registrar, events},
        settings(settings_of(role, pool_bytes)) {
    auto made = control::ClusterPresence::create(
        {environment,
         random,
         settings,
         agents(role, pool_bytes),
         pool_bytes,
         {},  // no rails
         {},
         [this](const std::string& reason) { expelled = reason; },
         {},
         [this](const std::string& status) { statuses.push_back(status); }});
    REQUIRE(made.has_value());
    presence = std::move(*made);
    presence->start();
  }
  ~Host() { presence->stop(); }

  static base::Config config_of(const std::string& name, const std::string& manager) {
    base::Config made = base::default_config();
    made.cluster.node_name = name;
    made.cluster.manager = manager;
    return made;
  }
  control::ClusterSettings settings_of(ClusterRole role, std::uint64_t pool_bytes) {
    auto made = control::ClusterSettings::make(config, role, pool_bytes > 0 ? 1 : 0, random);
    REQUIRE(made.has_value());
    return std::move(*made);
  }

  std::vector<control::AgentPresence> agents(ClusterRole role, std::uint64_t pool_bytes) {
    control::AgentPresence only;
    only.maps = &maps;
    if (role == ClusterRole::node) only.links.outgoing = &outgoing;
    if (pool_bytes > 0) only.links.incoming = &incoming;
    return {only};
  }

  void agent_turn() {
    maps.agent_take([this](const cluster::AgentMap& map) {
      placement = map.placement.get();
      ownership = &map.ownership;
    });
    const auto keep = [this](transport::TcpLink link) { links.push_back(std::move(link)); };
    outgoing.agent_take(
        keep, [](base::PeerId) {}, [](std::uint64_t) {}, [](void*) {});
    incoming.agent_take(
        keep, [](base::PeerId) {}, [](std::uint64_t) {}, [](void*) {});
    presence->deliver();
  }
  [[nodiscard]] json membership() const { return presence->membership(); }
  // Which part of the slots this daemon serves by its agent's map.
  [[nodiscard]] std::uint32_t owned() const {
    std::uint32_t count = 0;
    for (std::uint32_t slot = 0; ownership != nullptr && slot < base::kSlotCount; ++slot) {
      count += ownership->owns(static_cast<base::Slot>(slot)) ? 1U : 0U;
    }
    return count;
  }

  base::Config config;
  control::JobThread registrar{"registrar", 8};
  control::Environment environment;
  control::ClusterSettings settings;
  transport::TcpLinkMailbox outgoing{64};
  transport::TcpLinkMailbox incoming{64};
  cluster::MapMailbox maps{nullptr};
  std::optional<std::string> expelled;
  std::vector<std::string> statuses;
  std::unique_ptr<control::ClusterPresence> presence;

  // The agent's.
  const engine::Placement* placement = nullptr;
  const base::SlotOwnership* ownership = nullptr;
  std::vector<transport::TcpLink> links;
};

struct World : Basics {
  World() {
    auto opened = cluster::FileCoordinator::open(directory / "manager.state");
    REQUIRE(opened.has_value());
    coordinator = std::move(*opened);
    auto made =
        control::ClusterSettings::make(Host::config_of("m", ""), ClusterRole::manager, 0, random);
    REQUIRE(made.has_value());
    settings.emplace(std::move(*made));
    access.emplace(control::ClusterAccess{io, clock, random, counters, limits, errors,
                                          settings->secret, settings->self, events});
    cluster::ManagerConfig config;
    config.first_map_wait_ns = 50 * base::kNsPerMs;
    service.emplace(*access, config, *coordinator);
    REQUIRE(service->lead().has_value());
    REQUIRE(service->listen("127.0.0.1:0").has_value());
  }
  ~World() {
    hosts.clear();
    service->stop();
    service.reset();
    coordinator.reset();
  }
  Host& add(const std::string& name, ClusterRole role, std::uint64_t pool_bytes) {
    hosts.push_back(std::make_unique<Host>(io, name, service->address().text(), role, pool_bytes));
    return *hosts.back();
  }
  void until(const std::function<bool()>& done) {
    cluster_net::poll_until(io, [&] {
      for (const auto& host : hosts) host->agent_turn();
      return done();
    });
  }

  boost::asio::io_context io;
  const test_support::TemporaryDirectory directory;
  std::unique_ptr<cluster::FileCoordinator> coordinator;
  std::optional<control::ClusterSettings> settings;
  std::optional<control::ClusterAccess> access;
  std::optional<control::ManagerService> service;
  std::vector<std::unique_ptr<Host>> hosts;
};

TEST_CASE("a map reaches every agent, with the connections that it speaks of") {
  World world;
  Host& a = world.add("a", ClusterRole::storage, kGiB);
  Host& b = world.add("b", ClusterRole::storage, kGiB);
  Host& node = world.add("n", ClusterRole::node, 0);
  // Two connections from the node's agent to the only shard of each storage daemon.
  world.until([&] {
    return a.owned() + b.owned() == base::kSlotCount && a.owned() > 0 && b.owned() > 0 &&
           node.links.size() == 4 && node.placement != nullptr &&
           node.placement->epoch() == a.ownership->epoch;
  });
  world.until([&] { return a.links.size() == 2 && b.links.size() == 2; });
  CHECK(node.owned() == 0);
  // A slot's route leads over a link to the daemon that serves it.
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const transport::Route route = node.placement->route(slot);
    wrong += a.ownership->owns(slot) == b.ownership->owns(slot) ? 1U : 0U;
    bool has_link = false;
    for (const transport::TcpLink& link : node.links) {
      has_link = has_link || (link.peer == route.peer && link.shard == route.shard);
    }
    wrong += has_link ? 0U : 1U;
  }
  CHECK(wrong == 0);
  world.until([&] { return node.membership()["agents_epoch"] == node.membership()["epoch"]; });
  CHECK(node.membership()["state"] == "joined");
  CHECK(a.membership()["slots"] == a.owned());
  CHECK(node.statuses.back() == "joined");
}

TEST_CASE("questions are answered by the manager, by other daemons, or with an error") {
  World world;
  Host& a = world.add("a", ClusterRole::storage, kGiB);
  Host& node = world.add("n", ClusterRole::node, 0);
  std::vector<Expected<std::string>> answers;
  const auto keep = [&](Expected<std::string> answer) { answers.push_back(std::move(answer)); };
  node.presence->ask(cluster::Topic::nodes, "", keep);  // nobody has been reached yet
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].status() == Status::unreachable);
  CHECK(answers[0].error().context.find("no manager to ask: waiting for the manager") == 0);

  world.until([&] { return node.links.size() == 2 && a.links.size() == 2; });
  node.presence->ask(cluster::Topic::nodes, "", keep);
  node.presence->ask(cluster::Topic::peers, "storage/a", keep);
  node.presence->ask(cluster::Topic::stats, "a", keep);
  node.presence->ask(cluster::Topic::peers, "nobody", keep);
  world.until([&] { return answers.size() == 5; });
  for (const Expected<std::string>& answer : answers) {
    if (!answer) continue;
    const json value = json::parse(*answer);
    const bool is_known = value.contains("nodes") || value.contains("askers") ||
                          value.contains("cluster.listener.accepted");
    CHECK(is_known);
  }
  const auto failed = std::count_if(answers.begin(), answers.end(),
                                    [](const auto& answer) { return !answer.has_value(); });
  CHECK(failed == 2);
  // A stop does not leave anybody waiting.
  node.presence->ask(cluster::Topic::nodes, "", keep);
  node.presence->stop();
  REQUIRE(answers.size() == 6);
  CHECK(answers[5].status() == Status::unreachable);
}

TEST_CASE("draining is over when the newest map gives no slots, and at once for who has none") {
  World world;
  Host& a = world.add("a", ClusterRole::storage, kGiB);
  Host& b = world.add("b", ClusterRole::storage, kGiB);
  Host& node = world.add("n", ClusterRole::node, 0);
  world.until([&] { return a.owned() > 0 && b.owned() > 0 && node.links.size() == 4; });
  bool a_is_drained = false;
  bool node_is_drained = false;
  a.presence->drain([&] { a_is_drained = true; });
  node.presence->drain([&] { node_is_drained = true; });
  CHECK_FALSE(a_is_drained);  // never from inside the call
  CHECK_FALSE(node_is_drained);
  world.until([&] { return a_is_drained && node_is_drained; });
  world.until([&] { return b.owned() == base::kSlotCount && a.owned() == 0; });
}

TEST_CASE("who stands at another one's place is refused, and told why") {
  World world;
  Host& first = world.add("a", ClusterRole::storage, kGiB);
  world.until([&] { return first.owned() == base::kSlotCount; });
  Host& twin = world.add("a", ClusterRole::storage, kGiB);
  world.until([&] { return twin.membership()["state"] == "refused"; });
  CHECK(twin.statuses.back().find("refused: ") == 0);
  CHECK_FALSE(twin.expelled.has_value());
  CHECK_FALSE(first.expelled.has_value());
}

TEST_CASE("a presence that can not listen says which key is at fault") {
  World world;
  base::Config config = Host::config_of("x", world.service->address().text());
  for (const auto& [listen, advertise, key] :
       {std::tuple("10.9.8.7:1", "", "cluster.listen"),
        std::tuple("nonsense", "", "cluster.listen"),
        std::tuple("127.0.0.1:0", "::1", "cluster.advertise")}) {
    config.cluster.listen = listen;
    config.cluster.advertise = advertise;
    control::JobThread thread("none", 8);
    control::Environment environment{world.io,       config,       world.clock,
                                     world.counters, world.limits, world.errors,
                                     world.log,      thread,       world.events};
    const auto made = control::ClusterPresence::create(
        {environment, world.random, *world.settings, {}, kGiB, {}, {}, {}, {}, {}});
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().context.find(key) == 0);
  }
}

}  // namespace cluster_presence_test
