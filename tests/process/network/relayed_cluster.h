// RelayedCluster: a manager, storage daemons a and b and a node, each a process, and a relay in
// every connection between them.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/page_load.h"
#include "tests/support/network_relay.h"

namespace network_tests {

using namespace cluster_processes;
using simm::test_support::NetworkRelay;

// What one daemon is reached by, and reaches the manager by.
struct RelayedDaemon {
  // `keys`: more of the configuration.
  RelayedDaemon(const std::string& name, const std::string& role, const std::string& secret,
                const std::string& manager_address, std::uint64_t seed, int detection_ms,
                const std::string& keys)
      : address(free_address()),
        data(address, seed),
        manager(manager_address, seed + 1),
        process("\"cluster\": {\"manager\": \"" + manager.address() + "\", \"secret_file\": \"" +
                    secret + "\", \"node_name\": \"" + name + "\", \"listen\": \"" + address +
                    "\", \"advertise\": \"" + data.address() +
                    "\", \"detection_ms\": " + std::to_string(detection_ms) + "}" + keys,
                role) {}
  const std::string address;
  NetworkRelay data;     // others dial it
  NetworkRelay manager;  // it dials
  DaemonProcess process;
};

struct RelayedCluster {
  static constexpr int kPages = 48;
  // Detection time of tests in which daemons do not lose each other, however busy the machine is.
  static constexpr int kPatientMs = 5000;

  // `grace_ms`: how long a daemon that is away keeps its slots. `storage_keys`: more of the storage
  // daemons' configuration. `detection_ms`: how long a connection may be silent. A busy machine
  // alone makes connections silent for 300 ms, the default of the configuration.
  explicit RelayedCluster(int grace_ms = 30'000, std::uint64_t seed = 1,
                          const std::string& storage_keys = "", int detection_ms = 1000)
      : address(free_address()),
        manager("\"cluster\": {\"secret_file\": \"" + secret.path() +
                    "\", \"node_name\": \"m\"}, \"manager\": {\"listen\": \"" + address +
                    "\", \"member_timeout_ms\": " + std::to_string(std::min(grace_ms, 1000)) +
                    ", \"rejoin_grace_ms\": " + std::to_string(grace_ms) + "}",
                "manager"),
        a("a", "storage", secret.path(), address, seed, detection_ms, storage_keys),
        b("b", "storage", secret.path(), address, seed + 100, detection_ms, storage_keys),
        node("n", "node", secret.path(), address, seed + 200, detection_ms,
             kEngineKeys + R"(, "node": {"pool_bytes": 0})") {
    REQUIRE(manager.start());
    REQUIRE(a.process.start());
    REQUIRE(b.process.start());
    REQUIRE(node.process.start());
    REQUIRE(settles());
  }

  // A client of the node. Its calls wait for longer than daemons take to lose each other.
  [[nodiscard]] Checker checker() const { return Checker(node.process, "page/", "", kPatientMs); }

  // Everybody has the newest map and every connection.
  bool settles() {
    const auto is_settled = [&] {
      for (const DaemonProcess* daemon : {&a.process, &b.process, &node.process}) {
        if (!uses_the_map_of(*daemon, manager)) return false;
      }
      return sees_members(node.process, 2);
    };
    return eventually(is_settled);
  }
  // Connections from the node to a storage daemon.
  [[nodiscard]] int open_to(const std::string& name) const {
    const auto report = node.process.report("peers");
    for (const auto& peer : report["peers"]) {
      if (peer["name"] == "storage/" + name) return peer["open"].get<int>();
    }
    return -1;
  }

  SecretFile secret;
  const std::string address;  // of the manager
  DaemonProcess manager;
  RelayedDaemon a;
  RelayedDaemon b;
  RelayedDaemon node;
};

}  // namespace network_tests
