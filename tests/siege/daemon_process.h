// DaemonProcess: a real `simmd all` in a directory of its own, with two tenants, each on a socket.
// Killed and cleaned up when the object goes. Thread: one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace simm::siege {

class DaemonProcess {
public:
  DaemonProcess();
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  [[nodiscard]] std::string red_socket() const { return directory_ + "/red.sock"; }
  [[nodiscard]] std::string blue_socket() const { return directory_ + "/blue.sock"; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool alive() const;

  // One report of the admin socket.
  [[nodiscard]] nlohmann::json report(const std::string& command) const;
  // A counter of `stats`; 0 when there is none of that name.
  [[nodiscard]] std::uint64_t counter(const std::string& name) const;
  // Open sessions as soon as there are at most `wanted`, or after the time limit.
  [[nodiscard]] std::size_t sessions_settled_to(std::size_t wanted) const;
  // Open file descriptors of the daemon's process.
  [[nodiscard]] std::size_t descriptors() const;
  // VmRSS + shmem of the daemon, bytes.
  [[nodiscard]] std::uint64_t resident_bytes() const;

private:
  std::string directory_;
  pid_t pid_ = -1;
};

}  // namespace simm::siege
