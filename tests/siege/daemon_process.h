// A daemon under siege: a real `simmd all` with two tenants, red and blue, each on a socket of its
// own. The attackers come by one, the honest client by the other. Thread: the test's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/process/daemon_process.h"

namespace simm::siege {

class DaemonProcess {
public:
  DaemonProcess();

  [[nodiscard]] std::string red_socket() const { return process_.directory() + "/red.sock"; }
  [[nodiscard]] std::string blue_socket() const { return process_.directory() + "/blue.sock"; }
  [[nodiscard]] bool alive() const;
  // One report of the admin socket.
  [[nodiscard]] nlohmann::json report(const std::string& command) const;
  // Open sessions as soon as there are at most `wanted`, or after 5 s.
  [[nodiscard]] std::size_t sessions_settled_to(std::size_t wanted) const;
  [[nodiscard]] std::size_t descriptors() const { return process_.open_descriptors(); }

private:
  process_test::DaemonProcess process_;
};

}  // namespace simm::siege
