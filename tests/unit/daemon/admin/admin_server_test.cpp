#include "daemon/admin/admin_server.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/admin/admin_reports.h"
#include "ipc/admin_codec.h"
#include "tests/support/sysfs_tree.h"
#include "tests/unit/daemon/attach/attach_world.h"

namespace admin_server_test {

using namespace control_fixture;
using nlohmann::json;

struct Admin {
  using Rails = std::function<std::vector<transport::RailProgress>()>;
  explicit Admin(World& w, const std::string& sysfs_root = "/sys", Rails rails = {})
      : world(w),
        reports(setup(w, sysfs_root, std::move(rails))),
        server(w.environment.io, w.environment.limits, reports) {
    const Outcome listening = server.listen(path());
    REQUIRE(listening.has_value());
  }
  static control::AdminReports::Setup setup(World& world, const std::string& sysfs_root,
                                            Rails rails) {
    control::AdminReports::Setup setup{world.environment, world.server, "all", 1 << 20};
    setup.sysfs_root = sysfs_root;
    if (rails) setup.rails = std::move(rails);
    return setup;
  }
  std::string path() const { return world.directory / "admin.sock"; }
  ipc::FdSocket connect() {
    auto socket = ipc::FdSocket::connect(path(), base::kNsPerSecond);
    REQUIRE(socket.has_value());
    return std::move(*socket);
  }
  ipc::AdminReply ask(ipc::FdSocket& socket, const ipc::AdminRequest& request) {
    const auto packet = ipc::encode(request);
    REQUIRE(packet.has_value());
    CHECK(socket.try_send(*packet) == ipc::SocketResult::done);
    std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
    ipc::Received received;
    world.until([&] {
      received = socket.try_receive(buffer);
      return received.result != ipc::SocketResult::would_block;
    });
    REQUIRE(received.result == ipc::SocketResult::done);
    const auto reply = ipc::decode_admin_reply(std::span(buffer.data(), received.bytes));
    REQUIRE(reply.has_value());
    return *reply;
  }
  // All pages of a command.
  json ask(const std::string& command, const std::string& argument = "") {
    ipc::FdSocket socket = connect();
    std::string text;
    ipc::AdminRequest request{1, command, argument, 0};
    do {
      const ipc::AdminReply reply = ask(socket, request);
      CHECK(reply.status == Status::ok);
      text += reply.text;
      request.cursor = reply.next_cursor;
    } while (request.cursor != 0);
    return json::parse(text);
  }
  World& world;
  control::AdminReports reports;
  control::AdminServer server;
};

TEST_CASE("the reports say who is attached and what they share") {
  World world;
  Admin admin(world);
  ipc::FdSocket socket = world.attach(1);
  ipc::RegisterRegion wanted;
  wanted.length = 8192;
  wanted.name = "kv \"x\"";
  World::send(socket, wanted);
  (void)world.receive(socket);

  CHECK(admin.ask("status").at("sessions") == 1);
  const json sessions = admin.ask("sessions");
  REQUIRE(sessions.size() == 1);
  CHECK(sessions[0].at("tenant") == "blue");
  CHECK(sessions[0].at("state") == "open");
  CHECK(sessions[0].at("regions") == 1);
  const json regions = admin.ask("regions");
  REQUIRE(regions.size() == 1);
  CHECK(regions[0].at("bytes") == 8192);
  CHECK(regions[0].at("kind") == "shared");
  CHECK(regions[0].at("reason") == "because");
  world.errors.record("test.site", Status::io_error, "broken");
  CHECK(admin.ask("errors").at("errors")[0].at("text") == "broken");
  const json stats = admin.ask("stats", "control.connections.");
  CHECK(stats.at("control.connections.open") == 1);
  CHECK_FALSE(stats.contains("counters.refused"));
}

TEST_CASE("a long report comes in pages of one moment") {
  World world;
  Admin admin(world);
  for (int i = 0; i < 2000; ++i) {
    (void)world.counters.counter("long.name.for.paging." + std::string(60, 'x') +
                                 std::to_string(i));
  }
  CHECK(admin.ask("stats").size() > 2000);
}

TEST_CASE("sockets, tenants and limits have what uses them up") {
  World world;
  Admin admin(world);
  ipc::FdSocket socket = world.attach(1);
  ipc::RegisterRegion wanted;
  wanted.length = 8192;
  World::send(socket, wanted);
  (void)world.receive(socket);
  const json sockets = admin.ask("sockets");
  REQUIRE(sockets.size() == world.config.sockets.size());
  CHECK(sockets[1].at("sessions") == 1);
  CHECK(sockets[1].at("path") == world.config.sockets[1].path);
  const json tenants = admin.ask("tenants");
  for (const json& tenant : tenants) {
    CHECK(tenant.at("sessions") == (tenant.at("tenant") == "blue" ? 1 : 0));
    CHECK(tenant.at("namespaces") == 1);
  }
  world.limits.reached(base::Limit::registrar_jobs);
  world.counters.counter("session.0.held_bytes").add(3);
  for (const json& limit : admin.ask("limits")) {
    CAPTURE(limit.dump());
    const bool is_held = limit.at("limit") == "bytes_tenant";
    const bool is_jobs = limit.at("limit") == "registrar_jobs";
    CHECK(limit.at("reached") == (is_held ? 3 : is_jobs ? 1 : 0));
  }
}

TEST_CASE("nics are those of this moment, with what they are near to") {
  World world;
  support::SysfsTree tree(2);
  Admin admin(world, tree.root());
  CHECK(admin.ask("nics") == json::array());
  tree.add_nic("mlx5_0", "pci0000:10/0000:11:00.0", 1);
  tree.add_gpu("pci0000:10/0000:12:00.0", 1);
  const json nics = admin.ask("nics");
  REQUIRE(nics.size() == 1);
  CHECK(nics[0].at("nic") == "mlx5_0");
  CHECK(nics[0].at("state") == "active");
  CHECK(nics[0].at("mbit_s") == 400'000);
  CHECK(nics[0].at("numa_node") == 1);
  CHECK(nics[0].at("pci") == "0000:11:00.0");
  CHECK(nics[0].at("near_nodes") == json::array({0, 1}));
  CHECK(nics[0].at("near_gpus") == json::array({"0000:12:00.0"}));
  tree.write("class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
  CHECK(admin.ask("nics")[0].at("near_nodes").empty());
}

TEST_CASE("nics show what the configuration says of them, and what it asks for in vain") {
  World world;
  support::SysfsTree tree(2);
  Admin admin(world, tree.root());
  tree.add_nic("mlx5_0", "pci0000:10/0000:11:00.0", 0);
  tree.add_nic("mlx5_1", "pci0000:20/0000:21:00.0", 1);
  CHECK(admin.ask("nics")[0].at("configured").empty());
  CHECK(admin.ask("nics")[1].at("used") == true);
  world.config.nics = {{"mlx5_1", 0, 100, ""}, {"mlx5_9", {}, {}, ""}};
  const json nics = admin.ask("nics");
  REQUIRE(nics.size() == 3);
  CHECK(nics[0].at("used") == false);
  CHECK(nics[0].at("near_nodes").empty());
  CHECK(nics[1].at("used") == true);
  CHECK(nics[1].at("numa_node") == 0);
  CHECK(nics[1].at("mbit_s") == 100'000);
  CHECK(nics[1].at("near_nodes") == json::array({0, 1}));
  CHECK(nics[1].at("configured") == json::array({"numa_node", "speed_gbit_s"}));
  CHECK(nics[1].at("problem") == "");
  CHECK(nics[2].at("nic") == "mlx5_9");
  CHECK(nics[2].at("state") == "missing");
  CHECK(nics[2].at("problem").get<std::string>().find("mlx5_0/1, mlx5_1/1") != std::string::npos);
}

TEST_CASE("nics show how far memory is registered with those that are opened") {
  World world;
  support::SysfsTree tree(1);
  std::vector<transport::RailProgress> rails;
  Admin admin(world, tree.root(), [&] { return rails; });
  tree.add_nic("mlx5_0", "pci0000:10/0000:11:00.0", 0);
  tree.add_nic("mlx5_1", "pci0000:10/0000:12:00.0", 0);
  const auto row = [&](std::size_t nic) {
    const json at = admin.ask("nics").at(nic);
    return std::vector<std::int64_t>{at.at("rail"), at.at("registered_bytes"),
                                     at.at("waiting_bytes"), at.at("failed_bytes"),
                                     at.at("wanted_bytes")};
  };
  CHECK(row(0) == std::vector<std::int64_t>{-1, 0, 0, 0, 0});
  rails = {{.name = "mlx5_1/1", .wanted_bytes = 500}};
  rails[0].registered_bytes = 100;
  CHECK(row(1) == std::vector<std::int64_t>{0, 100, 400, 0, 500});
  rails[0].registered_bytes = 420;
  rails[0].failed_bytes = 30;
  CHECK(row(1) == std::vector<std::int64_t>{0, 420, 50, 30, 500});
  CHECK(row(0) == std::vector<std::int64_t>{-1, 0, 0, 0, 0});
  // A port that is not open says so, and why; one that is none is no rail.
  const auto state = [&](std::size_t nic) {
    const json at = admin.ask("nics").at(nic);
    return std::vector<std::string>{at.at("rail_state"), at.at("rail_trouble")};
  };
  CHECK(state(0) == std::vector<std::string>{"", ""});
  CHECK(state(1) == std::vector<std::string>{"open", ""});
  rails[0].state = "down";
  rails[0].trouble = "set its link up";
  rails.push_back({.name = "mlx5_0/1", .state = "unusable", .trouble = "it is an iWARP device"});
  CHECK(state(0) == std::vector<std::string>{"unusable", "it is an iWARP device"});
  CHECK(state(1) == std::vector<std::string>{"down", "set its link up"});
  CHECK(row(0) == std::vector<std::int64_t>{-1, 0, 0, 0, 0});
}

TEST_CASE("who was poisoned is known after its end") {
  World world;
  Admin admin(world);
  ipc::FdSocket socket = world.attach(1);
  const std::uint64_t id = world.plane.opened.back();
  world.server.on_session_poisoned(id, ipc::PoisonReason::bad_descriptor);
  world.until([&] { return world.server.sessions() == 0; });
  const json ended = admin.ask("sessions", "ended");
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].at("session") == id);
  CHECK(ended[0].at("poisoned") == "bad_descriptor");
  CHECK(ended[0].at("pid") == ::getpid());
  CHECK(ended[0].at("tenant") == "blue");
  // A connection that never became a session is none.
  { const ipc::FdSocket gone = world.connect(0); }
  world.until([&] { return world.server.sessions() == 0; });
  CHECK(admin.ask("sessions", "ended").size() == 1);
  // And only so many are kept.
  for (int i = 0; i < 70; ++i) {
    { const ipc::FdSocket client = world.attach(0); }
    world.until([&] { return world.server.sessions() == 0; });
  }
  CHECK(admin.ask("sessions", "ended").size() == 64);
}

TEST_CASE("the log level is asked for and changed") {
  World world;
  Admin admin(world);
  CHECK(admin.ask("log", "error").at("level") == "error");
  CHECK(world.environment.log.level() == base::LogLevel::error);
  ipc::FdSocket socket = admin.connect();
  CHECK(admin.ask(socket, {5, "log", "shout", 0}).status == Status::invalid_argument);
  CHECK(admin.ask("log").at("level") == "error");
}

TEST_CASE("a daemon in no cluster says so") {
  World world;
  Admin admin(world);
  for (const char* command : {"nodes", "slots", "peers", "daemon_stats"}) {
    ipc::FdSocket socket = admin.connect();
    const ipc::AdminReply reply = admin.ask(socket, {5, command, "", 0});
    CHECK(reply.status == Status::invalid_state);
    CHECK(reply.text.find("cluster.manager") != std::string::npos);
  }
}

TEST_CASE("without names no report names a tenant or a client; a kind unknown here is left out") {
  World world;
  Admin admin(world);
  base::EventLog& events = world.environment.events;
  const std::uint64_t before = events.newest();
  events.tell(base::EventKind::session_attached, {{"session", "7"}, {"tenant", "blue"}});
  events.tell(base::EventKind::member_away, {{"member", "storage/a"}});
  events.tell(base::EventKind::error, {{"site", "x"}, {"text", "tenant blue"}});
  const auto ask = [&](base::AdminCommand command, std::string_view argument) {
    const auto text = admin.reports.report_without_names(command, argument);
    REQUIRE(text.has_value());
    return json::parse(*text);
  };
  CHECK(admin.ask("events", "-3")["events"].size() == 3);
  CHECK(admin.ask("events", "-3")["events"][0]["sequence"] == before + 1);
  const json some = ask(base::AdminCommand::events, "-3")["events"];
  REQUIRE(some.size() == 1);
  CHECK(some[0] == admin.ask("events", "-3")["events"][1]);
  // More than there are is all; less than a number is nothing that can be asked.
  CHECK(admin.ask("events", "-999999") == admin.ask("events", "0"));
  const json status = ask(base::AdminCommand::status, "");
  CHECK(status["sockets"].empty());
  CHECK(status["version"] == admin.ask("status")["version"]);
  for (const base::AdminCommandRow& row : base::kAdminCommands) {
    const bool is_told = row.command == base::AdminCommand::status ||
                         row.command == base::AdminCommand::events ||
                         row.command == base::AdminCommand::hot;
    CHECK(admin.reports.report_without_names(row.command, "0").has_value() == is_told);
  }
}

// A source that answers when the test says so.
struct SlowSource final : control::AdminSource {
  [[nodiscard]] base::AdminScope scope() const noexcept override { return base::AdminScope::data; }
  void report(base::AdminCommand, std::string_view, control::AdminAnswer answer) override {
    waiting.push_back(std::move(answer));
  }
  [[nodiscard]] Expected<std::string> report_without_names(base::AdminCommand,
                                                           std::string_view) override {
    return std::string("{}");
  }
  std::vector<control::AdminAnswer> waiting;
};

TEST_CASE("an answer may come late, or after its asker or the server has gone") {
  World world;
  SlowSource source;
  auto server = std::make_unique<control::AdminServer>(world.environment.io,
                                                       world.environment.limits, source);
  const std::string path = world.directory / "slow.sock";
  REQUIRE(server->listen(path).has_value());
  const auto ask = [&] {
    auto socket = ipc::FdSocket::connect(path, base::kNsPerSecond);
    REQUIRE(socket.has_value());
    const auto packet = ipc::encode(ipc::AdminRequest{9, "nodes", "", 0});
    CHECK(socket->try_send(*packet) == ipc::SocketResult::done);
    const std::size_t before = source.waiting.size();
    world.until([&] { return source.waiting.size() > before; });
    return std::move(*socket);
  };
  ipc::FdSocket patient = ask();
  source.waiting.at(0)(std::string("\"late\""));
  std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
  ipc::Received received;
  world.until([&] {
    received = patient.try_receive(buffer);
    return received.result != ipc::SocketResult::would_block;
  });
  REQUIRE(received.result == ipc::SocketResult::done);
  const auto reply = ipc::decode_admin_reply(std::span(buffer.data(), received.bytes));
  REQUIRE(reply.has_value());
  CHECK(reply->request_id == 9);
  CHECK(reply->text == "\"late\"");

  { const ipc::FdSocket gone = ask(); }
  source.waiting.at(1)(std::string("{}"));
  const ipc::FdSocket last = ask();
  server.reset();
  source.waiting.at(2)(Error{Status::timeout, "nobody hears it"});
}

TEST_CASE("unknown commands, bad cursors and garbage are answered or closed, not more") {
  World world;
  Admin admin(world);
  ipc::FdSocket socket = admin.connect();
  const ipc::AdminReply unknown = admin.ask(socket, {3, "format_disk", "", 0});
  CHECK(unknown.status == Status::invalid_argument);
  CHECK(unknown.request_id == 3);
  CHECK(unknown.text ==
        "unknown command; known: " + base::admin_command_names(base::AdminScope::data));
  CHECK(unknown.text.find("sessions, regions") != std::string::npos);
  CHECK(admin.ask(socket, {4, "status", "", 1u << 30}).status == Status::invalid_argument);
  const std::array<std::byte, 16> garbage{};
  CHECK(socket.try_send(garbage) == ipc::SocketResult::done);
  CHECK(world.hung_up(socket));
  CHECK(admin.ask("status").at("role") == "all");
}

}  // namespace admin_server_test
