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

#include "daemon/base/config.h"
#include "daemon/control/tenant_rules.h"

namespace service_manager_test {

using namespace simm;

TEST_CASE("state messages reach the service manager's socket, also an abstract one") {
  const std::string name = "simm-notify-" + std::to_string(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const ipc::UniqueFd receiver(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(receiver.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  ::setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
  ::setenv("WATCHDOG_USEC", "2000000", 1);
  control::ServiceManager service;
  CHECK(std::getenv("NOTIFY_SOCKET") == nullptr);
  CHECK(service.watchdog_interval() == std::chrono::microseconds(1'000'000));

  char text[256];
  const auto next = [&] {
    const ssize_t got = ::recv(receiver.get(), text, sizeof text, MSG_DONTWAIT);
    return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  };
  service.ready("serving");
  const std::string ready = next();
  CHECK(ready.find("READY=1\n") == 0);
  CHECK(ready.find("STATUS=serving") != std::string::npos);
  service.watchdog();
  CHECK(next() == "WATCHDOG=1");
  service.stopping("draining");
  CHECK(next() == "STOPPING=1\nSTATUS=draining");

  control::ServiceManager nobody;  // no variables any more: silent
  nobody.ready("x");
  CHECK(next().empty());
  CHECK_FALSE(nobody.watchdog_interval().has_value());
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
                 "quota_percent": 30}]})",
                                   "t");
  REQUIRE(config.has_value());
  const control::TenantRules rules(*config, base::KeyHasher(5));
  CHECK(rules.resolve("by_socket", 7, 50).name == "by_socket");
  CHECK(rules.resolve("", 7, 50).name == "by_uid");
  CHECK(rules.resolve("", 7, 50).quota_percent == 30);
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

}  // namespace service_manager_test
