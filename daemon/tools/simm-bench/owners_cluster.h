// OwnersCluster: a manager, several storage daemons and a node without a pool, all on 127.0.0.1,
// for measurements of what happens when owners come and go. Each is a process with a directory of
// its own; they share a secret. Not pinned: all share the machine.
// Thread: the one that started it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/tools/simm-bench/daemon_process.h"
#include "daemon/tools/simm-bench/temporary_directory.h"
#include "simm/expected.h"

namespace simm::bench {

struct OwnersOptions {
  unsigned owners = 8;
  std::uint64_t pool_bytes = 256ull << 20;  // of each
  std::uint64_t move_bytes_per_s = 512ull << 20;
  std::uint32_t drain_ms = 60'000;  // how long one that stops waits for its objects to follow
};

class OwnersCluster {
public:
  // Returns when the node has all its connections.
  static Expected<OwnersCluster> start(const OwnersOptions& options);

  OwnersCluster(OwnersCluster&& other) = default;
  OwnersCluster& operator=(OwnersCluster&& other) = delete;
  ~OwnersCluster();  // kills the owners, who would wait for others to take their objects

  [[nodiscard]] const DaemonProcess& node() const noexcept { return node_; }
  // What their counters of that name say, one for each owner. `name`: behind "server.N.".
  [[nodiscard]] Expected<std::vector<std::uint64_t>> counted(const std::string& name) const;

  // One more owner. Does not wait for its slots.
  Outcome add_owner();
  // The first owner is told to stop: it goes when its objects have followed.
  void stop_first_owner() const;
  // The first owner hands its slots over, and stays.
  Outcome drain_first_owner() const;

private:
  OwnersCluster(TemporaryDirectory directory, DaemonProcess manager, DaemonProcess node,
                std::vector<DaemonProcess> owners, OwnersOptions options, std::string address)
      : directory_(std::move(directory)),
        manager_(std::move(manager)),
        owners_(std::move(owners)),
        node_(std::move(node)),
        options_(options),
        address_(std::move(address)) {}
  Outcome wait_until_connected();

  TemporaryDirectory directory_;  // of the secret
  DaemonProcess manager_;
  std::vector<DaemonProcess> owners_;
  DaemonProcess node_;
  OwnersOptions options_;
  std::string address_;
};

}  // namespace simm::bench
