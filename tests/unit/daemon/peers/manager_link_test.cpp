// The two ends of a control connection in the cluster, a ManagerService and some ManagerLinks, over
// real loopback sockets and with a real state file.
#include "daemon/peers/manager_link.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/file_coordinator.h"
#include "daemon/cluster/slot_map_builder.h"
#include "daemon/peers/manager_service.h"
#include "daemon/peers/manager_survey.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/daemon/peers/cluster_net.h"

namespace manager_link_test {

using namespace cluster_net;
using cluster::ClusterRole;
using cluster::LinkState;

struct Member final : cluster::MemberEvents {
  Member(boost::asio::io_context& io, const std::string& manager, std::string name,
         std::uint64_t number, std::uint64_t weight_bytes)
      : daemon(io, secret_of('s'), std::move(name), number,
               weight_bytes > 0 ? ClusterRole::storage : ClusterRole::node),
        link(*daemon.access, manager, config(weight_bytes), *this) {
    link.start();
  }
  cluster::MemberConfig config(std::uint64_t weight_bytes) const {
    cluster::MemberConfig made;
    made.identity = {daemon.self.incarnation, daemon.self.role, daemon.self.name};
    if (weight_bytes == 0) return made;
    made.address = "127.0.0.1";
    made.port = 4000;
    made.shards = 2;
    made.weight_bytes = weight_bytes;
    return made;
  }

  void on_map(const cluster::SlotMapPtr& newer, const cluster::SlotMapPtr&) override {
    epochs.push_back(newer->epoch());
  }
  void on_expelled(const std::string& reason) override { expelled = reason; }
  cluster::Heartbeat load() override {
    cluster::Heartbeat heartbeat;
    heartbeat.objects = 7;
    return heartbeat;
  }
  cluster::Answer answer(const cluster::Question&) override {
    return {0, Status::ok, "\"" + daemon.self.name + "\""};
  }
  void on_answer(const cluster::Answer& given) override { answers.push_back(given); }

  [[nodiscard]] LinkState state() const { return link.member().state(); }
  [[nodiscard]] std::uint32_t slots() const {
    const auto& map = link.member().map();
    const auto found = map == nullptr ? std::nullopt : map->find(daemon.self.incarnation);
    return found ? map->slot_count(*found) : 0;
  }

  Daemon daemon;
  std::vector<base::Epoch> epochs;
  std::optional<std::string> expelled;
  std::vector<cluster::Answer> answers;
  control::ManagerLink link;
};

// A cluster whose manager comes and goes; its state lies in a directory of its own.
struct Cluster {
  Cluster() { manager_daemon.emplace(io, secret_of('s'), "manager", 100, ClusterRole::manager); }
  ~Cluster() { stop_manager(); }
  void start_manager() {
    auto opened = cluster::FileCoordinator::open(directory / "manager.state");
    REQUIRE(opened.has_value());
    coordinator = std::move(*opened);
    cluster::ManagerConfig config;
    config.heartbeat_ns = 20 * base::kNsPerMs;
    config.first_map_wait_ns = 100 * base::kNsPerMs;
    config.membership.member_timeout_ns = 200 * base::kNsPerMs;
    service.emplace(*manager_daemon->access, config, *coordinator);
    Outcome started = service->lead();
    if (started) started = service->listen(address);
    REQUIRE(started.has_value());
    address = service->address().text();
  }
  void stop_manager() {
    if (service) service->stop();
    service.reset();
    coordinator.reset();
  }
  Member& join(const std::string& name, std::uint64_t number, std::uint64_t weight_bytes) {
    members.push_back(std::make_unique<Member>(io, address, name, number, weight_bytes));
    return *members.back();
  }
  void until(const std::function<bool()>& done) { poll_until(io, done); }
  void run_for(int milliseconds) {
    io.restart();
    io.run_for(std::chrono::milliseconds(milliseconds));
  }

  boost::asio::io_context io;
  const test_support::TemporaryDirectory directory;
  std::string address = "127.0.0.1:0";
  std::optional<Daemon> manager_daemon;
  std::unique_ptr<cluster::FileCoordinator> coordinator;
  std::optional<control::ManagerService> service;
  std::vector<std::unique_ptr<Member>> members;
};

constexpr std::uint64_t kGiB = 1u << 30;

TEST_CASE("daemons join, get the map, and those without a pool only look on") {
  Cluster cluster;
  cluster.start_manager();
  Member& a = cluster.join("a", 2, kGiB);
  Member& b = cluster.join("b", 3, 3 * kGiB);
  Member& node = cluster.join("n", 4, 0);
  const auto all_joined = [&] {
    return a.state() == LinkState::joined && b.state() == LinkState::joined &&
           node.state() == LinkState::joined;
  };
  // On a machine that stands for a second a member is alone for a moment, and comes back.
  cluster.until(
      [&] { return a.slots() > 0 && b.slots() > 0 && !node.epochs.empty() && all_joined(); });
  CHECK(a.slots() == base::kSlotCount / 4);
  CHECK(b.slots() == base::kSlotCount * 3 / 4);
  CHECK(node.slots() == 0);
  CHECK(a.link.status() == "joined");
  CHECK(*a.link.member().map() == *node.link.member().map());

  // Questions find their way through the manager and back.
  cluster::Question question;
  question.id = 5;
  question.topic = cluster::Topic::nodes;
  CHECK(node.link.ask(question) == Status::ok);
  question.id = 6;
  question.topic = cluster::Topic::peers;
  question.target = "storage/b";
  CHECK(node.link.ask(question) == Status::ok);
  cluster.until([&] { return node.answers.size() == 2; });
  CHECK(node.answers[0].id == 5);
  const auto nodes = nlohmann::json::parse(node.answers[0].text)["nodes"];
  CHECK(nodes.size() == 3);
  CHECK(node.answers[1].id == 6);
  CHECK(node.answers[1].text == "\"b\"");
  // Heartbeats carry what a daemon holds.
  cluster.until([&] {
    const std::string text = cluster.service->manager().report(cluster::Topic::nodes);
    const auto report = nlohmann::json::parse(text);
    return report["nodes"][1]["objects"] == 7;
  });
}

TEST_CASE("a daemon that starts before its manager waits and says so, and joins when it can") {
  Cluster cluster;
  cluster.start_manager();  // to know a free port
  cluster.stop_manager();
  Member& a = cluster.join("a", 2, kGiB);
  cluster.until([&] { return a.daemon.counters.value("cluster.dialer.failed") >= 2; });
  CHECK(a.state() == LinkState::waiting);
  CHECK(a.link.status().find("waiting for the manager: cluster.manager: 127.0.0.1:") == 0);
  cluster::Question question;
  CHECK(a.link.ask(question) == Status::unreachable);
  cluster.start_manager();
  cluster.until([&] { return a.slots() == base::kSlotCount; });
  CHECK(a.link.status() == "joined");
}

TEST_CASE("without its manager the last map stays, and a restarted one changes nothing") {
  Cluster cluster;
  cluster.start_manager();
  Member& a = cluster.join("a", 2, kGiB);
  Member& b = cluster.join("b", 3, kGiB);
  cluster.until([&] { return a.slots() > 0 && b.slots() > 0; });
  const cluster::SlotMapPtr before = a.link.member().map();
  const std::size_t maps = a.epochs.size();
  cluster.stop_manager();
  cluster.until([&] { return a.state() == LinkState::alone && b.state() == LinkState::alone; });
  CHECK(*a.link.member().map() == *before);
  cluster.start_manager();
  cluster.until([&] { return a.state() == LinkState::joined && b.state() == LinkState::joined; });
  cluster.run_for(150);
  CHECK(a.epochs.size() == maps);
  CHECK(*b.link.member().map() == *before);
  CHECK(*cluster.service->manager().map() == *before);
}

TEST_CASE("a manager that accepts connections and says nothing is dialled again") {
  Cluster cluster;
  cluster.start_manager();
  Member& a = cluster.join("a", 2, kGiB);
  cluster.until([&] { return a.slots() > 0; });
  // Its process is there and accepts, but nobody runs in it: another listener at its place.
  cluster.stop_manager();
  const auto place = cluster::SocketAddress::parse(cluster.address);
  auto listening = control::listen_tcp(*place, 16);
  REQUIRE(listening.has_value());
  ipc::UniqueFd silent = std::move(*listening);
  cluster.until([&] {
    return a.state() == LinkState::alone && a.daemon.counters.value("cluster.dialer.failed") >= 1;
  });
  silent.reset();
  cluster.start_manager();
  cluster.until([&] { return a.state() == LinkState::joined; });
}

TEST_CASE("who drains gets rid of its slots and stays connected until it goes") {
  Cluster cluster;
  cluster.start_manager();
  Member& a = cluster.join("a", 2, kGiB);
  Member& b = cluster.join("b", 3, kGiB);
  cluster.until([&] { return a.slots() > 0 && b.slots() > 0; });
  a.link.drain();
  cluster.until([&] { return a.link.member().owns_nothing() && b.slots() == base::kSlotCount; });
  CHECK(a.state() == LinkState::joined);
  a.link.stop();
  cluster.run_for(50);
  CHECK(b.slots() == base::kSlotCount);
}

TEST_CASE("two daemons of one name: the second is told why it may not join") {
  Cluster cluster;
  cluster.start_manager();
  Member& a = cluster.join("a", 2, kGiB);
  cluster.until([&] { return a.slots() > 0; });
  Member& twin = cluster.join("a", 3, kGiB);
  cluster.until([&] { return twin.state() == LinkState::refused; });
  CHECK(twin.link.status().find("refused: ") == 0);
  CHECK(a.state() == LinkState::joined);
  CHECK(a.slots() == base::kSlotCount);
  CHECK_FALSE(twin.expelled.has_value());
  // When the first one is gone the second takes its place, slots and all.
  a.link.stop();
  cluster.until([&] { return twin.slots() == base::kSlotCount; });
}

TEST_CASE("what listens at the manager's address has to be a manager") {
  Cluster cluster;
  Net net;
  Member wrong(net.io, net.listener.address().text(), "n", 9, 0);
  net.until([&] { return wrong.link.status().find("is not a manager") != std::string::npos; });
  CHECK(wrong.link.status().find("storage daemon, store-1") != std::string::npos);
  CHECK(wrong.state() == LinkState::waiting);
  // Nor does a manager take data connections, or another manager.
  cluster.start_manager();
  Daemon other(cluster.io, secret_of('s'), "second", 77, ClusterRole::manager);
  Dialling dialling;
  control::ClusterDialer dialer(*other.access, {"cluster.manager", cluster.address, {}}, dialling);
  dialer.start();
  cluster.until([&] { return !dialling.arrived.empty(); });
  RawPeer refused(std::move(dialling.arrived.at(0).socket));
  cluster.until([&] { return refused.is_over(); });
}

TEST_CASE("a manager that stands by says who leads, and sends its daemons to that one") {
  Cluster cluster;
  cluster.start_manager();
  Member& a = cluster.join("a", 2, kGiB);
  cluster.until([&] { return a.slots() > 0; });
  const base::Epoch epoch = a.epochs.back();
  Member& other = cluster.join("a", 3, kGiB);
  cluster.until([&] { return other.state() == LinkState::refused; });
  const std::string reason = other.link.member().reason();
  CHECK(reason.find("name") != std::string::npos);
  cluster.service->stand_by("this manager stands by: m2 leads");
  CHECK_FALSE(cluster.service->leads());
  cluster.until([&] { return a.state() == LinkState::refused; });
  CHECK(a.link.status().find("m2 leads") != std::string::npos);
  // What the one that led said of the second "a" stays: it has asked again since.
  const base::TimeNs asked_ns = other.link.member().state_since_ns();
  cluster.until([&] {
    return other.state() == LinkState::refused &&
           other.link.member().state_since_ns() - asked_ns > base::kNsPerSecond;
  });
  CHECK(other.link.member().reason() == reason);
  CHECK(cluster.service->manager().map() == nullptr);
  CHECK(a.link.member().map()->epoch() == epoch);
  // It is elected again: the state is where it was.
  REQUIRE(cluster.service->lead().has_value());
  cluster.until([&] { return a.state() == LinkState::joined; });
  CHECK(cluster.service->manager().map()->epoch() == epoch);
}

// Two thirds of the waits are longer than the wait after any lost connection, and which ones the
// seeds say.
TEST_CASE("daemons of a large cluster that lose their manager do not come back at one moment") {
  Cluster cluster;
  std::vector<cluster::MapMember> owners;
  for (std::uint64_t number = 1; number <= 500; ++number) {
    owners.push_back({{{number, number + 1}, ClusterRole::storage, "s" + std::to_string(number)},
                      "10.0.0.7",
                      4000,
                      2,
                      kGiB,
                      0});
  }
  const cluster::MapLife life{{7, 7}, {}};
  const auto map = cluster::build_slot_map(1, owners, nullptr, nullptr, life);
  REQUIRE(map.has_value());
  {
    auto state = cluster::FileCoordinator::open(cluster.directory / "manager.state");
    const auto bytes = cluster::encode(cluster::ManagerState{*map, {}});
    REQUIRE((state.has_value() && bytes.has_value()));
    REQUIRE((*state)->store(0, {1, *bytes}).has_value());
  }
  cluster.start_manager();
  for (std::uint64_t number = 1; number <= 20; ++number) {
    cluster.join("n" + std::to_string(number), 1000 + number, 0);
  }
  const auto all = [&](const auto& is_so) {
    return std::all_of(cluster.members.begin(), cluster.members.end(),
                       [&](const auto& member) { return is_so(*member); });
  };
  cluster.until([&] { return all([](const Member& m) { return m.epochs.size() == 1; }); });
  cluster.stop_manager();
  cluster.until([&] { return all([](const Member& m) { return m.state() == LinkState::alone; }); });
  const auto dialled = [&] {
    return std::count_if(cluster.members.begin(), cluster.members.end(), [](const auto& member) {
      return member->daemon.counters.value("cluster.dialer.failed") > 0;
    });
  };
  const base::RealClock clock;
  const base::TimeNs lost_ns = clock.now_ns();
  cluster.until([&] { return dialled() == 20; });
  CHECK(clock.now_ns() - lost_ns > 200 * base::kNsPerMs);
  cluster.start_manager();
  cluster.until(
      [&] { return all([](const Member& m) { return m.state() == LinkState::joined; }); });
}

TEST_CASE("each manager of a list says what it is, also one that stands by or is away") {
  Cluster cluster;
  cluster.start_manager();
  cluster.join("a", 2, kGiB);
  cluster.until([&] { return cluster.members[0]->slots() > 0; });
  Daemon second(cluster.io, secret_of('s'), "second", 77, ClusterRole::manager);
  auto state = cluster::FileCoordinator::open(cluster.directory / "second.state");
  REQUIRE(state.has_value());
  control::ManagerService standby(*second.access, {}, **state);
  REQUIRE(standby.listen("127.0.0.1:0").has_value());
  cluster.service->report_with([] { return R"({"state": "leads", "epoch": 3})"; });
  standby.report_with([] { return R"({"state": "stands by", "no": "column"})"; });

  // Asked by a node, and by a manager of the list, twice at once.
  Daemon node(cluster.io, secret_of('s'), "n", 9, ClusterRole::node);
  control::ManagerSurvey of_node(*node.access);
  control::ManagerSurvey of_second(*second.access);
  const std::string list = cluster.address + ", " + standby.address().text() + ", 127.0.0.1:1";
  std::vector<Expected<std::string>> texts;
  const auto keep = [&](Expected<std::string> text) { texts.push_back(std::move(text)); };
  of_node.ask(list, keep);
  of_second.ask(list, keep);
  of_second.ask(list, keep);
  CHECK(texts.empty());
  cluster.until([&] { return texts.size() == 3; });
  for (const auto& text : texts) {
    REQUIRE(text.has_value());
    const auto rows = nlohmann::json::parse(*text)["managers"];
    REQUIRE(rows.size() == 3);
    CHECK(rows[0]["address"] == cluster.address);
    CHECK(rows[0]["name"] == "manager");
    CHECK(rows[0]["state"] == "leads");
    CHECK(rows[0]["epoch"] == 3);
    CHECK(rows[1]["name"] == "second");
    CHECK(rows[1]["state"] == "stands by");
    CHECK(rows[1]["epoch"].is_null());
    CHECK_FALSE(rows[1].contains("no"));
    CHECK(rows[2]["state"] == "away");
    CHECK(rows[2]["trouble"].get<std::string>().find("127.0.0.1:1") != std::string::npos);
  }
  // No daemon has joined or lost its place by it.
  CHECK(cluster.service->manager().connections() == 1);
}

TEST_CASE("a survey ends when a manager says nothing, and when the daemon stops") {
  Cluster cluster;
  cluster.start_manager();
  auto listening = control::listen_tcp(*cluster::SocketAddress::parse("127.0.0.1:0"), 16);
  REQUIRE(listening.has_value());
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  // SAFETY: the kernel writes at most `bytes`.
  REQUIRE(::getsockname(listening->get(), reinterpret_cast<sockaddr*>(&bound), &bytes) == 0);
  const std::string silent = cluster::SocketAddress::from(bound)->text();
  Daemon node(cluster.io, secret_of('s'), "n", 9, ClusterRole::node);
  control::ManagerSurvey survey(*node.access);
  std::vector<Expected<std::string>> texts;
  const auto keep = [&](Expected<std::string> text) { texts.push_back(std::move(text)); };
  survey.ask(silent, keep);
  cluster.until([&] { return texts.size() == 1; });
  REQUIRE(texts[0].has_value());
  CHECK(nlohmann::json::parse(*texts[0])["managers"][0]["state"] == "away");
  survey.ask(silent, keep);
  survey.stop();
  REQUIRE(texts.size() == 2);
  CHECK(texts[1].status() == Status::unreachable);
}

TEST_CASE("of several managers a daemon finds the one that answers") {
  Cluster cluster;
  cluster.start_manager();
  const std::string own = cluster.address;
  cluster.address = "127.0.0.1:1, " + own + ",127.0.0.1:2";
  Member& a = cluster.join("a", 2, kGiB);
  cluster.until([&] { return a.state() == LinkState::joined; });
  cluster.address = own;
  for (int restart = 0; restart < 3; ++restart) {
    cluster.stop_manager();
    cluster.until([&] { return a.state() != LinkState::joined; });
    cluster.start_manager();
    cluster.until([&] { return a.state() == LinkState::joined; });
  }
}

TEST_CASE("a manager does not start with a state that it can not read, nor beside another one") {
  Cluster cluster;
  cluster.start_manager();
  CHECK(cluster::FileCoordinator::open(cluster.directory / "manager.state").status() ==
        Status::invalid_state);
  Member& a = cluster.join("a", 2, kGiB);
  cluster.until([&] { return a.slots() > 0; });
  cluster.stop_manager();
  const int file = ::open((cluster.directory / "manager.state").c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(::pwrite(file, "garbage", 7, 60) == 7);
  ::close(file);
  auto opened = cluster::FileCoordinator::open(cluster.directory / "manager.state");
  REQUIRE(opened.has_value());
  control::ManagerService service(*cluster.manager_daemon->access, {}, **opened);
  const Outcome started = service.lead();
  CHECK(started.status() == Status::corrupt);
}

}  // namespace manager_link_test
