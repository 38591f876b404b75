#include "daemon/cluster/socket_address.h"

#include <doctest/doctest.h>

namespace socket_address_test {

using namespace simm::cluster;

TEST_CASE("addresses read as they are written") {
  for (const char* text : {"127.0.0.1:30001", "10.0.0.7:0", "[::1]:65535", "[fd00::7]:1"}) {
    const auto address = SocketAddress::parse(text);
    REQUIRE(address.has_value());
    CHECK(address->text() == text);
  }
  for (const char* text : {"", ":1", "host:1", "1.2.3.4", "1.2.3.4:", "1.2.3.4:-1", "1.2.3.4:65536",
                           "::1:1", "[::1]", "[]:1", "[1.2.3.4]:1", "[::1:1", "1.2.3.4:1 "}) {
    CAPTURE(text);
    CHECK_FALSE(SocketAddress::parse(text).has_value());
  }
}

TEST_CASE("loopback is what can not be reached from elsewhere") {
  for (const char* text : {"127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    CHECK(SocketAddress::parse(text)->is_loopback());
  }
  for (const char* text :
       {"0.0.0.0:1", "[::]:1", "128.0.0.1:1", "[::2]:1", "[::ffff:10.0.0.1]:1", "[7f00::1]:1"}) {
    CHECK_FALSE(SocketAddress::parse(text)->is_loopback());
  }
}

TEST_CASE("names keep their port") {
  const auto split = split_host_port("manager.example.org:30001");
  REQUIRE(split.has_value());
  CHECK(split->host == "manager.example.org");
  CHECK(split->port == 30001);
  CHECK_FALSE(split_host_port("a:b:1").has_value());
  CHECK_FALSE(split_host_port("manager").has_value());
}

}  // namespace socket_address_test
