#include "daemon/control/service_manager.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "daemon/attach/tenant_rules.h"
#include "daemon/base/config.h"
#include "daemon/control/watchdog_feeder.h"

namespace service_manager_test {

using namespace simm;

// The ear of a service manager, which our environment names.
struct Supervisor {
  explicit Supervisor(const char* watchdog_us) {
    const std::string name = "simm-notify-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    REQUIRE(::bind(receiver.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    ::setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
    ::setenv("WATCHDOG_USEC", watchdog_us, 1);
  }
  std::string next() {
    char text[256];
    const ssize_t got = ::recv(receiver.get(), text, sizeof text, MSG_DONTWAIT);
    return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  ipc::UniqueFd receiver{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_CASE("state messages reach the service manager's socket, also an abstract one") {
  Supervisor supervisor("2000000");
  control::ServiceManager service;
  CHECK(std::getenv("NOTIFY_SOCKET") == nullptr);
  CHECK(service.watchdog_interval() == std::chrono::microseconds(1'000'000));

  service.extend_start(std::chrono::seconds(30), "recovering");
  CHECK(supervisor.next() == "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=recovering");
  service.ready("serving");
  const std::string ready = supervisor.next();
  CHECK(ready.find("READY=1\n") == 0);
  CHECK(ready.find("STATUS=serving") != std::string::npos);
  service.watchdog();
  CHECK(supervisor.next() == "WATCHDOG=1");
  service.stopping("draining");
  CHECK(supervisor.next() == "STOPPING=1\nSTATUS=draining");

  control::ServiceManager nobody;  // no variables any more: silent
  nobody.ready("x");
  CHECK(supervisor.next().empty());
  CHECK_FALSE(nobody.watchdog_interval().has_value());
}

TEST_CASE("the watchdog is fed at each look at which everybody has come round, and at no other") {
  Supervisor supervisor("20000");
  control::ServiceManager service;
  boost::asio::io_context io;
  int looks = 0;
  bool is_alive = true;
  control::WatchdogFeeder feeder(io, service, [&] {
    if (++looks == 8) io.stop();
    return is_alive;
  });
  const auto fed_in_eight_looks = [&] {
    looks = 0;
    io.restart();
    feeder.start();
    io.run();
    int fed = 0;
    while (supervisor.next() == "WATCHDOG=1") ++fed;
    return fed;
  };
  CHECK(fed_in_eight_looks() == 1 + 8);  // one at the start
  is_alive = false;
  CHECK(fed_in_eight_looks() == 1);
}

TEST_CASE("descriptors that are meant for another process are not taken") {
  ::setenv("LISTEN_PID", "1", 1);
  ::setenv("LISTEN_FDS", "3", 1);
  CHECK(control::take_inherited_sockets().empty());
  CHECK(std::getenv("LISTEN_FDS") == nullptr);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "many", 1);
  CHECK(control::take_inherited_sockets().empty());
}

TEST_CASE("tenants: the socket first, then uids, then gids, else default") {
  auto config = base::parse_config(R"({
    "sockets": [{"path": "/a"}, {"path": "/b", "tenant": "by_socket"}],
    "tenants": [{"name": "by_gid", "gids": [50]}, {"name": "by_uid", "uids": [7],
                 "quota_percent": 30, "weight": 7}]})",
                                   "t");
  REQUIRE(config.has_value());
  const control::TenantRules rules(*config, base::KeyHasher(5));
  CHECK(rules.resolve("by_socket", 7, 50).name == "by_socket");
  CHECK(rules.resolve("", 7, 50).name == "by_uid");
  CHECK(rules.resolve("", 7, 50).quota_percent == 30);
  CHECK(rules.resolve("", 7, 50).weight == 7);
  CHECK(rules.resolve("", 8, 50).name == "by_gid");
  CHECK(rules.resolve("", 8, 51).name == "default");
  CHECK(rules.tenants().front().name == "default");
  CHECK(rules.resolve("by_socket", 0, 0).id != rules.resolve("", 8, 51).id);
  const control::TenantRules same(*config, base::KeyHasher(5));
  const control::TenantRules other(*config, base::KeyHasher(6));
  CHECK(same.resolve("", 7, 0).id == rules.resolve("", 7, 0).id);
  CHECK(other.resolve("", 7, 0).id != rules.resolve("", 7, 0).id);
  CHECK(rules.namespace_id("by_uid").value != rules.resolve("", 7, 0).id.value);
  CHECK(rules.namespace_id("").value == 0);
}

TEST_CASE("tenants are several when two clients may belong to different ones") {
  const auto are_several = [](const std::string& keys) {
    const auto config = base::parse_config("{" + keys + "}", "t");
    REQUIRE(config.has_value());
    return control::TenantRules(*config, base::KeyHasher(5)).are_several();
  };
  CHECK_FALSE(are_several(""));
  CHECK_FALSE(are_several(R"("tenants": [{"name": "default", "weight": 3}])"));
  CHECK_FALSE(are_several(R"("sockets": [{"path": "/a", "tenant": "red"}])"));
  CHECK_FALSE(are_several(R"("sockets": [{"path": "/a", "tenant": "red"}],
                             "tenants": [{"name": "red"}])"));
  CHECK(are_several(R"("sockets": [{"path": "/a"}, {"path": "/b", "tenant": "red"}])"));
  CHECK(are_several(R"("sockets": [{"path": "/a", "tenant": "default"},
                                   {"path": "/b", "tenant": "red"}])"));
  CHECK(are_several(R"("sockets": [{"path": "/a", "tenant": "red"}],
                       "tenants": [{"name": "red"}, {"name": "blue"}])"));
  CHECK(are_several(R"("tenants": [{"name": "red", "uids": [7]}])"));
}

}  // namespace service_manager_test
