// A cluster of real daemons on loopback: a manager, storage daemons and nodes, each a process with
// a directory of its own, and one secret. Processes may be killed and started again one by one.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "simm/client.h"
#include "tests/process/page_checker.h"
#include "tests/support/daemon_process.h"
#include "tests/support/free_port.h"
#include "tests/support/number_from.h"
#include "tests/support/temporary_directory.h"

namespace cluster_processes {

using Checker = process_tests::PageChecker;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;
using simm::test_support::number_from;

// The manager needs a port that stays the same when it is restarted.
inline std::string free_address() {
  return "127.0.0.1:" + std::to_string(simm::test_support::free_port());
}

class SecretFile {
public:
  SecretFile() {
    std::ofstream(path()) << "a secret of the process tests, nobody else's";
    REQUIRE(::chmod(path().c_str(), 0600) == 0);
  }
  [[nodiscard]] std::string path() const { return directory_ / "secret"; }

private:
  const simm::test_support::TemporaryDirectory directory_;
};

struct ClusterProcesses {
  // `grace_ms`: how long a dead daemon keeps its slots. `keys`: more of the manager's
  // configuration. `silence_ms`: how long a connection may be silent, of daemons that are made
  // from here on. Users have 300 ms; then a busy machine alone may end connections.
  explicit ClusterProcesses(int grace_ms = 30'000, const std::string& keys = "",
                            int silence_ms = 5'000)
      : detection_ms(silence_ms),
        address(free_address()),
        manager("\"cluster\": {\"secret_file\": \"" + secret.path() +
                    "\", \"node_name\": \"m\"}, \"manager\": {\"listen\": \"" + address +
                    "\", \"member_timeout_ms\": " + std::to_string(std::min(grace_ms, 1000)) +
                    ", \"rejoin_grace_ms\": " + std::to_string(grace_ms) + "}" + keys,
                "manager") {}

  // `keys`: more members of the configuration.
  [[nodiscard]] std::unique_ptr<DaemonProcess> storage(const std::string& name,
                                                       const std::string& keys = "") const {
    return std::make_unique<DaemonProcess>(member_keys(name) + keys, "storage");
  }
  [[nodiscard]] std::unique_ptr<DaemonProcess> node(const std::string& name,
                                                    const std::string& pool = "0",
                                                    const std::string& keys = "") const {
    return std::make_unique<DaemonProcess>(member_keys(name) + keys +
                                               ", \"node\": {\"pool_bytes\": \"" + pool +
                                               "\", \"cache_linger_ms\": 60000}",
                                           "node");
  }
  [[nodiscard]] std::string member_keys(const std::string& name) const {
    return "\"cluster\": {\"manager\": \"" + address + "\", \"secret_file\": \"" + secret.path() +
           "\", \"node_name\": \"" + name +
           "\", \"detection_ms\": " + std::to_string(detection_ms) +
           (moves_objects ? "" : ", \"move_bytes_per_s\": 0") + "}";
  }

  int detection_ms;
  bool moves_objects = true;  // with their slots; of daemons that are made from here on
  SecretFile secret;
  std::string address;
  DaemonProcess manager;
};

// Whether every data agent of `daemon` uses the map of the manager.
inline bool uses_the_map_of(const DaemonProcess& daemon, const DaemonProcess& manager) {
  const auto newest = manager.report("status")["manager"]["epoch"];
  const auto status = daemon.report("status")["cluster"];
  return newest != 0 && status["epoch"] == newest && status["agents_epoch"] == newest;
}

// Whether `node` has a map of `members` members and a working connection to each.
inline bool sees_members(const DaemonProcess& node, std::size_t members) {
  const auto report = node.report("peers");
  if (!report.contains("peers") || report["peers"].size() != members) return false;
  for (const auto& peer : report["peers"]) {
    if (peer["open"] != peer["connections"]) return false;
  }
  return true;
}

}  // namespace cluster_processes
