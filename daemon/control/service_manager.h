// What a service manager (systemd) tells a service and hears from it: inherited listening sockets
// and kept files (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES; sd_listen_fds(3)), and state messages and
// files to keep over the datagram socket in NOTIFY_SOCKET (sd_notify(3)). Without one, everything
// here does nothing. Thread: start-up, then control.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipc/fd.h"

namespace simm::control {

struct InheritedSocket {
  ipc::UniqueFd fd;
  std::string name;  // FileDescriptorName=, may be empty
  std::string path;  // where it is bound; empty when it is not a Unix socket with a path
};

// Takes the inherited descriptors (close-on-exec from now on) and clears the variables, so that no
// child believes they are its own. Call once, before any thread.
std::vector<InheritedSocket> take_inherited_sockets();

class ServiceManager {
public:
  ServiceManager();  // reads NOTIFY_SOCKET, WATCHDOG_USEC and FDSTORE, and clears them

  void ready(const std::string& status);
  // What `systemctl status` shows from now on.
  void status(const std::string& status);
  // The start goes on, and may take so long from now on.
  void extend_start(std::chrono::microseconds time, const std::string& status);
  void stopping(const std::string& status);
  void watchdog();

  // Whether it keeps files for the next process of this service: $FDSTORE says for how many it has
  // room. systemd sets it since version 254; units for older ones set it themselves.
  [[nodiscard]] bool keeps_files(std::uint64_t count) const noexcept {
    return !address_.empty() && files_max_ >= count;
  }
  // Gives it one file to keep, in place of what it keeps under that name: it comes back among
  // take_inherited_sockets(), after whatever became of this process.
  void keep_file(const std::string& name, int fd);

  // How often watchdog() has to be called: half of what the service manager allows. Nothing: never.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog_interval() const {
    return watchdog_interval_;
  }

private:
  void send(const std::string& message, int fd = -1);

  std::string address_;
  std::uint64_t files_max_ = 0;
  std::optional<std::chrono::microseconds> watchdog_interval_;
};

}  // namespace simm::control
