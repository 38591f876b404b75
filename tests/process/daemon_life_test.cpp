// Start, service manager, graceful and forced ends of a real daemon.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "ipc/fd_listener.h"
#include "simm/client.h"
#include "tests/support/daemon_process.h"
#include "tests/support/paths.h"
#include "tests/support/raw_client.h"

namespace daemon_life_test {

using namespace simm::test_support;
using nlohmann::json;

simm::Client connect_client(const std::string& path) {
  simm::ClientOptions options;
  options.socket_path = path;
  auto client = simm::Client::connect(options);
  REQUIRE(client.has_value());
  return std::move(*client);
}

// Puts `byte` under `key` and reads it back into another place.
void put_and_get(simm::Client& client, const std::string& key, std::byte byte) {
  auto region = client.allocate_region(1 << 20);
  REQUIRE(region.has_value());
  std::memset(region->data(), static_cast<int>(byte), 65536);
  CHECK(client.put(key, simm::View(*region, 0, 65536)).status == simm::Status::ok);
  const auto got = client.get(key, simm::View(*region, 131072, 65536));
  CHECK(got.status == simm::Status::ok);
  CHECK(got.bytes == 65536);
  CHECK(std::memcmp(region->data(), region->data() + 131072, 65536) == 0);
}

TEST_CASE("a daemon serves, says what it is doing, and ends on SIGTERM") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  {
    simm::Client client = connect_client(daemon.socket());
    put_and_get(client, "k", std::byte{7});
    CHECK(json::parse(daemon.ask("status")).at("sessions") == 1);
    const json sessions = json::parse(daemon.ask("sessions"));
    CHECK(sessions.at(0).at("state") == "open");
    CHECK(sessions.at(0).at("tenant") == "default");
    auto region = client.allocate_region(1 << 20);
    REQUIRE(region.has_value());
    const json regions = json::parse(daemon.ask("regions"));
    REQUIRE(regions.size() == 1);
    CHECK(regions.at(0).at("kind") == "shared");
    CHECK(regions.at(0).at("bytes") == 1 << 20);
    CHECK(daemon.counter("server.0.put_pages") == 1);
    CHECK(daemon.counter("server.0.get_pages") == 1);
  }
  CHECK(eventually([&] { return json::parse(daemon.ask("sessions")).empty(); }));
  daemon.signal(SIGTERM);
  CHECK(daemon.next_notification().find("STOPPING=1") == 0);
  CHECK(daemon.wait() == 0);
  struct stat info {};
  CHECK(::stat(daemon.socket().c_str(), &info) != 0);
  CHECK(::stat(daemon.admin_socket().c_str(), &info) != 0);
}

TEST_CASE("dedicated data threads serve as one daemon") {
  DaemonProcess daemon(R"("threading": {"mode": "dedicated", "data_agents": 2})");
  REQUIRE(daemon.start());
  simm::Client client = connect_client(daemon.socket());
  for (int i = 0; i < 50; ++i) {
    put_and_get(client, "key" + std::to_string(i), static_cast<std::byte>(i));
  }
  CHECK(daemon.counter("server.0.put_pages") > 0);
  CHECK(daemon.counter("server.1.put_pages") > 0);
}

TEST_CASE("the pool is made present in the background, and its progress is seen") {
  DaemonProcess daemon(R"("node": {"pool_bytes": "128MiB", "hugepages": "off", "prefault": true})");
  REQUIRE(daemon.start());
  simm::Client client = connect_client(daemon.socket());
  put_and_get(client, "k", std::byte{1});
  constexpr std::uint64_t kPool = 128 << 20;
  CHECK(eventually([&] { return daemon.report("status").at("prefaulted_bytes") == kPool; }));
  CHECK(daemon.counter("pool.bytes") == kPool);
  const auto is_logged = [&] {
    return daemon.log().find("prefault done=\"128.0 MiB\"") != std::string::npos;
  };
  CHECK(eventually(is_logged));
  put_and_get(client, "k2", std::byte{2});
  DaemonProcess lazy(R"("node": {"pool_bytes": "128MiB", "hugepages": "off"})");
  REQUIRE(lazy.start());
  CHECK(lazy.report("status").at("prefaulted_bytes") == 0);
}

TEST_CASE("store.eviction decides what leaves a full pool") {
  // 16 pages fill the pool, and the first is put again, which is a use: only fifo does not care.
  const auto survives = [](const std::string& eviction) {
    DaemonProcess daemon(R"("node": {"pool_bytes": "16MiB", "hugepages": "off"},
      "store": {)" + eviction +
                         R"("eviction_watermark_percent": 100})");
    REQUIRE(daemon.start());
    simm::Client client = connect_client(daemon.socket());
    auto region = client.allocate_region(1 << 20);
    REQUIRE(region.has_value());
    const simm::View page(*region, 0, 1 << 20);
    for (int i = 0; i < 16; ++i) {
      CHECK(client.put("page" + std::to_string(i), page).status == simm::Status::ok);
    }
    CHECK(client.put("page0", page).status == simm::Status::ok);
    CHECK(client.put("one more", page).status == simm::Status::ok);
    const bool first = client.exists("page0").status == simm::Status::ok;
    CHECK(client.exists("page1").status == (first ? simm::Status::not_found : simm::Status::ok));
    return first;
  };
  CHECK(survives(""));
  CHECK(survives(R"("eviction": "reuse", )"));
  CHECK(survives(R"("eviction": "lru", )"));
  CHECK_FALSE(survives(R"("eviction": "fifo", )"));
}

TEST_CASE("a stop with sessions open closes them, and their clients are told") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  simm::Client client = connect_client(daemon.socket());
  put_and_get(client, "k", std::byte{1});
  RawClient raw(daemon.socket());
  REQUIRE(raw.attach());
  daemon.signal(SIGINT);
  CHECK(daemon.wait() == 0);
  CHECK(raw.hung_up());
  CHECK(client.exists("k").status == simm::Status::unreachable);
}

TEST_CASE("a restarted daemon is found again by a client that knew the old one") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  simm::Client client = connect_client(daemon.socket());
  auto region = client.allocate_region(65536);
  REQUIRE(region.has_value());
  CHECK(client.put("k", simm::View(*region, 0, 4096)).status == simm::Status::ok);
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  REQUIRE(daemon.start());  // also replaces the socket files that the dead one left
  CHECK(eventually(
      [&] { return client.put("k", simm::View(*region, 0, 4096)).status == simm::Status::ok; }));
}

TEST_CASE("sockets of a service manager are used, by path and by name") {
  DaemonProcess daemon(R"("sockets": [{"path": "@blue", "tenant": "blue"}])");
  const std::string path = daemon.directory() + "/handed.sock";
  auto listener = simm::ipc::FdListener::listen(path, 0600, 16);
  REQUIRE(listener.has_value());
  daemon.inherit(listener->fd(), "blue");
  REQUIRE(daemon.start());
  RawClient raw(path);
  REQUIRE(raw.attach());
  CHECK(json::parse(daemon.ask("sessions")).at(0).at("tenant") == "blue");
  daemon.signal(SIGTERM);
  CHECK(daemon.wait() == 0);
  struct stat info {};
  CHECK(::stat(path.c_str(), &info) == 0);  // the service manager's, not ours to remove
}

TEST_CASE("the watchdog is fed") {
  DaemonProcess daemon;
  daemon.set_environment("WATCHDOG_USEC", "200000");
  // Whatever comes first: the watchdog is fed before READY, and again and again.
  (void)daemon.start();
  int fed = 0;
  for (int i = 0; i < 6; ++i) fed += daemon.next_notification() == "WATCHDOG=1";
  CHECK(fed >= 4);
}

TEST_CASE("two daemons do not share a socket, and the first one lives on") {
  DaemonProcess first;
  REQUIRE(first.start());
  DaemonProcess second(R"("sockets": [{"path": ")" + first.socket() + R"("}])");
  CHECK_FALSE(second.start());
  CHECK(second.wait() == 1);
  CHECK(second.log().find(first.socket()) != std::string::npos);
  RawClient raw(first.socket());
  CHECK(raw.attach());
}

TEST_CASE("a configuration that can not work is refused in words that name the key") {
  const auto refused = [](const std::string& keys, const std::string& part) {
    DaemonProcess daemon(keys);
    CHECK_FALSE(daemon.start());
    CHECK(daemon.wait() == 1);
    const std::string log = daemon.log();
    CHECK_MESSAGE(log.find(part) != std::string::npos, log);
  };
  refused(R"("threading": {"data_agents": 64})", "node.pool_bytes = 64.0 MiB");
  refused(R"("node": {"pool_bytes": "32TiB"})", "node.pool_bytes = 32.0 TiB: ");
  refused(R"("threading": {"cpus": [1000], "mode": "dedicated"})", "threading.cpus");
  refused(R"("sockets": [{"path": "@nobody"}])", "@nobody");
  refused(R"("user": "no-such-user-here")", "no-such-user-here");
  refused(R"("admin_socket": "/nonexistent/directory/a.sock")", "/nonexistent/directory");
  refused(R"("wait": {"spin_us": -1})", "wait.spin_us = -1");
}

TEST_CASE("--print-schema and --check-config work without a daemon") {
  const std::string simmd = program("simmd");
  const std::string compare = " --print-schema | cmp -s - " + source("config/simm.schema.json");
  CHECK(std::system((simmd + compare).c_str()) == 0);
  CHECK(std::system((simmd + " --check-config > /dev/null").c_str()) == 0);
  CHECK(std::system((simmd + " --check-config --config /nonexistent 2> /dev/null").c_str()) != 0);
}

}  // namespace daemon_life_test
