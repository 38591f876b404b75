// What the network kept of a node daemon that was killed arrives when its successor has long worked
// for the same clients: nothing that was given up comes back.
#include <doctest/doctest.h>

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "simm/client.h"
#include "tests/process/network/relayed_cluster.h"

namespace late_bytes_test {

using namespace network_tests;
using simm::Status;
using simm::test_support::RelayWay;

constexpr std::size_t kPageBytes = 4096;  // inside its request
const std::string kKey = "page";

// A client that puts and gets one key, whose bytes all say its version.
struct VersionClient {
  explicit VersionClient(const DaemonProcess& node) : client(connect(node)), region(allocate()) {}
  static simm::Client connect(const DaemonProcess& node) {
    simm::ClientOptions options;
    options.socket_path = node.socket();
    auto connected = simm::Client::connect(options);
    REQUIRE(connected.has_value());
    return std::move(*connected);
  }
  simm::Region allocate() {
    auto allocated = client.allocate_region(2 * kPageBytes);
    REQUIRE(allocated.has_value());
    return std::move(*allocated);
  }
  Status put(int version) {
    std::memset(region.data(), version, kPageBytes);
    simm::CallOptions options;
    options.mode = simm::PutMode::replace;
    return client.put(kKey, simm::View(region, 0, kPageBytes), options).status;
  }
  // -1: a miss.
  int get() {
    const auto got = client.get(kKey, simm::View(region, kPageBytes, kPageBytes));
    if (got.status != Status::ok) return -1;
    return std::to_integer<int>(region.data()[kPageBytes]);
  }

  simm::Client client;
  simm::Region region;
};

TEST_CASE("late: a put or remove of a node that was killed is not done behind its successor's") {
  constexpr int kLooks = 200;
  for (const bool is_put : {true, false}) {
    CAPTURE(is_put);
    RelayedCluster world;
    const auto kept_bytes = [&] { return world.a.data.kept_bytes() + world.b.data.kept_bytes(); };
    {
      VersionClient first(world.node.process);
      REQUIRE(first.put(1) == Status::ok);
      for (RelayedDaemon* one : {&world.a, &world.b}) one->data.keep(RelayWay::to_server);
      std::thread late([&] {
        if (is_put) {
          CHECK(first.put(2) != Status::ok);
        } else {
          CHECK(first.client.remove(kKey) != Status::ok);
        }
      });
      CHECK(eventually([&] { return kept_bytes() > (is_put ? kPageBytes : 0); }));
      world.node.process.signal(SIGKILL);
      CHECK(world.node.process.wait() == 1000 + SIGKILL);
      late.join();
    }
    REQUIRE(world.node.process.start());
    REQUIRE(world.settles());
    VersionClient second(world.node.process);
    REQUIRE(second.put(3) == Status::ok);
    REQUIRE(second.get() == 3);
    for (RelayedDaemon* one : {&world.a, &world.b}) one->data.mend();
    REQUIRE(eventually([&] { return kept_bytes() == 0; }));
    // Each look is a round trip: the data agent that serves it has had turns for all that came.
    int right = 0;
    for (int look = 0; look < kLooks; ++look) right += second.get() == 3 ? 1 : 0;
    CHECK(right == kLooks);
    CHECK(world.settles());
  }
}

}  // namespace late_bytes_test
