// Managers on a real etcd, and daemons that know all of them. Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/page_load.h"
#include "tests/support/etcd_process.h"

namespace etcd_processes {

using namespace cluster_processes;
using simm::test_support::EtcdOptions;
using simm::test_support::EtcdProcess;
using simm::test_support::TemporaryDirectory;

// Leases of seconds on a machine that may be busy.
constexpr int kPatienceMs = 60'000;

// As a member of the configuration's "manager".
inline std::string etcd_keys(const std::vector<std::string>& endpoints) {
  std::string list;
  for (const std::string& endpoint : endpoints) {
    list += (list.empty() ? "\"" : ", \"") + endpoint + "\"";
  }
  return "\"etcd\": [" + list + "]";
}

// Two managers, and daemons that know both.
struct Managed {
  explicit Managed(const EtcdProcess& etcd)
      : Managed({etcd_keys(etcd.endpoints()), etcd_keys(etcd.endpoints())}) {}
  // `keys`: what the "manager" of each has beside the usual.
  explicit Managed(const std::array<std::string, 2>& keys)
      : Managed(keys, {free_address(), free_address()}) {}
  // They listen there.
  Managed(const std::array<std::string, 2>& keys, std::array<std::string, 2> at)
      : addresses(std::move(at)) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      managers.push_back(std::make_unique<DaemonProcess>(
          "\"cluster\": {\"secret_file\": \"" + secret.path() + "\", \"node_name\": \"m" +
              std::to_string(i) + "\"}, \"manager\": {\"listen\": \"" + addresses[i] +
              "\", \"rejoin_grace_ms\": 60000, " + keys[i] + "}",
          "manager"));
    }
  }
  void start_managers() const {
    for (const auto& manager : managers) {
      const bool is_there = manager->start();
      INFO(manager->log());
      REQUIRE(is_there);
    }
  }
  // A busy machine alone shall end no connection.
  [[nodiscard]] std::string member_keys(const std::string& name,
                                        const std::string& more = "") const {
    return "\"cluster\": {\"manager\": [\"" + addresses[0] + "\", \"" + addresses[1] +
           "\"], \"detection_ms\": 3000, \"secret_file\": \"" + secret.path() +
           "\", \"node_name\": \"" + name + "\"" + more + "}";
  }
  [[nodiscard]] std::unique_ptr<DaemonProcess> storage(const std::string& name,
                                                       const std::string& host = "") const {
    const std::string more = host.empty() ? "" : ", \"listen\": \"" + host + ":0\"";
    return std::make_unique<DaemonProcess>(member_keys(name, more), "storage");
  }
  [[nodiscard]] std::unique_ptr<DaemonProcess> node(const std::string& name) const {
    return std::make_unique<DaemonProcess>(
        member_keys(name) + kEngineKeys + ", \"node\": {\"pool_bytes\": \"0\"}", "node");
  }
  [[nodiscard]] static bool leads(const DaemonProcess& manager) {
    return manager.report("status")["leads"] == true;
  }
  [[nodiscard]] static std::uint64_t epoch(const DaemonProcess& manager) {
    return manager.report("status")["manager"]["epoch"];
  }
  // The index of the one that leads, of those that are asked.
  [[nodiscard]] std::size_t await_leader(const std::vector<std::size_t>& asked) const {
    std::size_t found = managers.size();
    REQUIRE(eventually(
        [&] {
          for (const std::size_t i : asked) {
            if (leads(*managers[i])) found = i;
          }
          return found < managers.size();
        },
        kPatienceMs));
    return found;
  }

  SecretFile secret;
  const std::array<std::string, 2> addresses;
  std::vector<std::unique_ptr<DaemonProcess>> managers;
};

}  // namespace etcd_processes
