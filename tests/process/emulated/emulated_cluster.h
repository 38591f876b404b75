// EmulatedCluster: a manager, storage daemons a, b, … and a node. Each is a process on a host of
// its own in an emulated network, so the TCP between them is the kernel's own. Lines of the node to
// the storage daemons can be shaped; the manager's are always good.
//
// Needs root: without it `is_possible()` is false, and the test has been told why.
// Thread: the test's, before it makes others (the network forks).
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/emulated_network.h"
#include "tests/process/cluster/cluster_processes.h"

namespace emulated_tests {

using namespace cluster_processes;
using simm::bench::EmulatedNetwork;
using simm::bench::LineShape;

class EmulatedCluster {
public:
  // `node_keys`: more members of the node's configuration. Nothing runs yet.
  explicit EmulatedCluster(std::size_t storages, const std::string& node_keys = "")
      : network_(EmulatedNetwork::start(storages + 2, kSeed)) {
    if (!network_) {
      MESSAGE("SKIPPED: " << network_.error().context);
      return;
    }
    const std::string secret = "\"secret_file\": \"" + secret_.path() + "\"";
    const std::string manager = EmulatedNetwork::address(kManager) + ":30001";
    manager_ = on_host(kManager,
                       "\"cluster\": {" + secret + ", \"node_name\": \"m\"}, \"manager\": " +
                           "{\"listen\": \"" + manager + "\"}",
                       "manager");
    const auto member = [&](const std::string& name) {
      return "\"cluster\": {" + secret + ", \"manager\": \"" + manager + "\", \"node_name\": \"" +
             name + "\"";
    };
    for (std::size_t i = 0; i < storages; ++i) {
      const std::string at = EmulatedNetwork::address(host_of(i)) + ":30002";
      storages_.push_back(
          on_host(host_of(i), member(name_of(i)) + ", \"listen\": \"" + at + "\"}", "storage"));
    }
    node_ = on_host(host_of(storages), member("n") + "}, \"node\": {\"pool_bytes\": 0}" + node_keys,
                    "node");
  }

  [[nodiscard]] bool is_possible() const noexcept { return network_.has_value(); }
  void start() {
    REQUIRE(manager_->start());
    for (const auto& storage : storages_) REQUIRE(storage->start());
    REQUIRE(node_->start());
  }
  // The node has the newest map and all connections.
  [[nodiscard]] bool settles() {
    const auto is_settled = [&] {
      return uses_the_map_of(*node_, *manager_) && sees_members(*node_, storages_.size());
    };
    return eventually(is_settled);
  }

  // Between the node and that storage daemon; to all of them.
  void shape_to(std::size_t storage, const LineShape& shape) {
    network_->shape(host_of(storages_.size()), host_of(storage), shape);
  }
  void shape_from(std::size_t storage, const LineShape& shape) {
    network_->shape(host_of(storage), host_of(storages_.size()), shape);
  }
  void shape_all(const LineShape& shape) {
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      shape_to(i, shape);
      shape_from(i, shape);
    }
  }

  [[nodiscard]] DaemonProcess& node() { return *node_; }
  [[nodiscard]] DaemonProcess& storage(std::size_t i) { return *storages_[i]; }
  // What the node says of that storage daemon; null when it does not know it.
  [[nodiscard]] nlohmann::json peer(std::size_t storage) const {
    const auto report = node_->report("peers");
    for (const auto& peer : report["peers"]) {
      if (peer["name"] == "storage/" + name_of(storage)) return peer;
    }
    return {};
  }

private:
  static constexpr std::uint64_t kSeed = 7;
  static constexpr std::size_t kManager = 0;

  static std::size_t host_of(std::size_t storage) { return storage + 1; }
  static std::string name_of(std::size_t storage) {
    return {static_cast<char>('a' + static_cast<char>(storage))};
  }
  std::unique_ptr<DaemonProcess> on_host(std::size_t host, const std::string& keys,
                                         const std::string& role) {
    auto daemon = std::make_unique<DaemonProcess>(keys, role);
    daemon->enter_network(network_->path(host));
    return daemon;
  }

  SecretFile secret_;
  simm::Expected<EmulatedNetwork> network_;
  std::unique_ptr<DaemonProcess> manager_;
  std::vector<std::unique_ptr<DaemonProcess>> storages_;
  std::unique_ptr<DaemonProcess> node_;
};

}  // namespace emulated_tests
