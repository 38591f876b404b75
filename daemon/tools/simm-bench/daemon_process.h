// DaemonProcess: a `simmd` of our own for one measurement: configuration and sockets in a new
// directory under /tmp, started, waited for, and at the end stopped and cleaned up.
// Thread: the one that started it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "daemon/tools/simm-bench/temporary_directory.h"
#include "simm/expected.h"

namespace simm::bench {

struct DaemonOptions {
  std::string role = "all";  // all and node have clients
  std::uint64_t pool_bytes = 1ull << 30;
  int cpu = -1;         // all threads pinned there; -1: not pinned
  std::string network;  // namespace to run in, as a path; empty: our own
  bool allow_foreign = false;
  bool has_other_tenant = false;                   // with a socket of its own
  nlohmann::json more = nlohmann::json::object();  // merged into the configuration
  std::vector<std::pair<std::string, std::string>> environment;
};

class DaemonProcess {
public:
  // Returns when the daemon answers its clients, or with its last words when it does not within
  // 30 s. One that has no clients is not waited for.
  static Expected<DaemonProcess> start(const DaemonOptions& options);

  DaemonProcess(DaemonProcess&& other) noexcept;
  DaemonProcess& operator=(DaemonProcess&& other) = delete;
  ~DaemonProcess();  // SIGTERM, after 10 s SIGKILL; removes its directory

  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  // Of the other tenant; without one the same as socket_path().
  [[nodiscard]] const std::string& other_socket_path() const noexcept { return other_path_; }
  // Where simmctl asks.
  [[nodiscard]] std::string admin_path() const { return directory_.path() + "/admin.sock"; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // An error with its last words when it has ended by itself.
  Outcome check_alive();

private:
  explicit DaemonProcess(TemporaryDirectory directory) : directory_(std::move(directory)) {}
  Outcome wait_until_it_answers();
  std::string log_tail() const;

  TemporaryDirectory directory_;
  std::string socket_path_;
  std::string other_path_;
  pid_t pid_ = -1;
};

// The process behind a socket that somebody else's daemon listens on.
Expected<pid_t> daemon_pid(const std::string& socket_path);

}  // namespace simm::bench
