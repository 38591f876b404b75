// Which port another daemon's port is connected to.
#include "daemon/transport/rdma/device/rail_choice.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <vector>

namespace rail_choice_test {

using namespace simm::transport;

QueuePairAddress port(const char* text, bool is_ethernet = true) {
  QueuePairAddress made;
  REQUIRE(::inet_pton(AF_INET6, text, made.gid.data()) == 1);
  made.is_ethernet = is_ethernet;
  return made;
}

// The ports that far ones at so many places get.
std::vector<std::size_t> choices(const std::vector<QueuePairAddress>& own,
                                 const QueuePairAddress& far, std::size_t places) {
  std::vector<std::size_t> chosen;
  for (std::size_t place = 0; place < places; ++place) {
    const auto rail = choose_rail(own, far, place);
    REQUIRE(rail.has_value());
    chosen.push_back(*rail);
  }
  return chosen;
}

using Rails = std::vector<std::size_t>;

TEST_CASE("rail choice: of rails that are networks of their own, the one that has the address") {
  const std::vector<QueuePairAddress> four = {port("::ffff:10.0.1.5"), port("::ffff:10.0.2.5")};
  CHECK(choices(four, port("::ffff:10.0.1.9"), 3) == Rails{0, 0, 0});
  CHECK(choices(four, port("::ffff:10.0.2.250"), 3) == Rails{1, 1, 1});
  const std::vector<QueuePairAddress> six = {port("2001:db8:0:1::5"), port("2001:db8:0:2::5")};
  CHECK(choices(six, port("2001:db8:0:1:ffff::9"), 3) == Rails{0, 0, 0});
  CHECK(choices(six, port("2001:db8:0:2::9"), 3) == Rails{1, 1, 1});
}

TEST_CASE("rail choice: ports of one network are used evenly, whatever their addresses") {
  const std::vector<QueuePairAddress> four = {port("::ffff:10.0.0.1"), port("::ffff:10.0.0.2"),
                                              port("::ffff:10.0.0.3"), port("::ffff:10.0.0.4")};
  for (const char* far : {"::ffff:10.0.0.5", "::ffff:10.0.0.3", "::ffff:10.0.0.200"}) {
    CHECK(choices(four, port(far), 6) == Rails{0, 1, 2, 3, 0, 1});
  }
  const std::vector<QueuePairAddress> six = {port("fd00::a00:1"), port("fd00::b00:2")};
  CHECK(choices(six, port("fd00::a00:3"), 4) == Rails{0, 1, 0, 1});
}

TEST_CASE("rail choice: an address of no own network is reached evenly over all") {
  const std::vector<QueuePairAddress> own = {port("::ffff:10.0.1.5"), port("::ffff:10.0.2.5")};
  CHECK(choices(own, port("::ffff:192.168.7.1"), 4) == Rails{0, 1, 0, 1});
}

TEST_CASE("rail choice: on InfiniBand the subnet tells who is reached, the port's name does not") {
  const std::vector<QueuePairAddress> own = {
      port("fec0:0:0:1::11", false), port("fec0:0:0:1::22", false), port("fec0:0:0:2::11", false)};
  CHECK(choices(own, port("fec0:0:0:2::22", false), 4) == Rails{2, 2, 2, 2});
  CHECK(choices(own, port("fec0:0:0:1::12", false), 2) == Rails{0, 1});
  // The other one is not of the subnet.
  CHECK(choose_rail(own, port("fec0:0:0:1::12", false), 2) == 0);
}

TEST_CASE("rail choice: only a port of the same kind of link is connected") {
  const std::vector<QueuePairAddress> own = {port("fe80::1", false), port("::ffff:10.0.0.1"),
                                             port("fe80::2", false)};
  CHECK(choices(own, port("fe80::3"), 4) == Rails{1, 1, 1, 1});
  CHECK(choices(own, port("::ffff:10.0.0.1", false), 3) == Rails{0, 2, 0});
  const std::vector<QueuePairAddress> infiniband = {own[0], own[2]};
  CHECK_FALSE(choose_rail(infiniband, port("fe80::1"), 0).has_value());
}

TEST_CASE("rail choice: rails that look alike are connected place by place") {
  std::vector<QueuePairAddress> fabric;
  std::vector<QueuePairAddress> halves;  // networks of 26 bits each
  for (int rail = 0; rail < 8; ++rail) {
    fabric.push_back(port(("fe80::1:" + std::to_string(10 + rail)).c_str(), false));
    halves.push_back(port(("::ffff:10.0.0." + std::to_string(5 + 31 * rail)).c_str()));
  }
  for (std::size_t rail = 0; rail < 8; ++rail) {
    CHECK(choose_rail(fabric, port("fe80::2:77", false), rail) == rail);
    CHECK(choose_rail(halves, port("::ffff:10.0.0.9"), rail) == rail);
  }
}

TEST_CASE("rail choice: of two fabrics each gets as many of the far ports as there are, evenly") {
  std::vector<QueuePairAddress> own;
  for (int rail = 0; rail < 4; ++rail) {
    own.push_back(port(("fec0:0:0:1::" + std::to_string(rail + 1)).c_str(), false));
  }
  own.push_back(port("fec0:0:0:2::1", false));
  std::vector<std::size_t> taken(own.size());
  for (std::size_t place = 0; place < 100; ++place) {
    ++taken[*choose_rail(own, port("fec0:0:0:1::99", false), place)];
  }
  CHECK(taken == std::vector<std::size_t>{25, 25, 25, 25, 0});
}

TEST_CASE("rail choice: without ports there is none") {
  CHECK_FALSE(choose_rail({}, port("fe80::1"), 3).has_value());
}

}  // namespace rail_choice_test
