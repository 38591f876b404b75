// LoopbackCluster: a cluster of our own for one measurement: a manager, a storage daemon with the
// whole pool, and a node without one, so that every page comes from the former: over TCP, or over
// RDMA devices if some are named. Each is a process with a
// directory of its own; they share a secret, and listen on 127.0.0.1 only, or in networks of their
// own: the node in one, the others in another.
// Thread: the one that started it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "daemon/tools/simm-bench/daemon_process.h"
#include "daemon/tools/simm-bench/temporary_directory.h"
#include "simm/expected.h"

namespace simm::bench {

// Where a daemon runs: a network namespace and an address in it.
struct NetworkPlace {
  std::string path;     // empty: our own
  std::string address;  // IPv4, without a port
};

struct ClusterOptions {
  std::uint64_t pool_bytes = 1ull << 30;     // of the storage daemon
  std::uint64_t cache_bytes = 256ull << 20;  // of the node, for pages that all ranks read
  std::string wait = "adaptive";             // how idle data threads wait
  std::vector<std::string> near_devices;     // of the node; with any, nothing but RDMA is used
  std::vector<std::string> far_devices;      // of the storage daemon
  NetworkPlace near_place;                   // of the node
  NetworkPlace far_place;                    // of the manager and the storage daemon; both or none
  std::vector<std::pair<std::string, std::string>> node_environment;
  std::vector<std::pair<std::string, std::string>> storage_environment;
};

class LoopbackCluster {
public:
  // Returns when the node has all its connections, or with the last words of who is missing.
  static Expected<LoopbackCluster> start(const ClusterOptions& options);

  [[nodiscard]] const DaemonProcess& node() const noexcept { return node_; }
  [[nodiscard]] const DaemonProcess& storage() const noexcept { return storage_; }

private:
  LoopbackCluster(TemporaryDirectory directory, DaemonProcess manager, DaemonProcess storage,
                  DaemonProcess node)
      : directory_(std::move(directory)),
        manager_(std::move(manager)),
        storage_(std::move(storage)),
        node_(std::move(node)) {}
  Outcome wait_until_connected(std::size_t rails);

  TemporaryDirectory directory_;  // of the secret
  DaemonProcess manager_;
  DaemonProcess storage_;
  DaemonProcess node_;
};

// A loopback address, HOST:PORT, whose port is free now.
Expected<std::string> free_address();

// What simmctl says about the daemon with that admin socket.
Expected<nlohmann::json> ask_daemon(const std::string& admin_path,
                                    const std::vector<std::string>& command);

}  // namespace simm::bench
