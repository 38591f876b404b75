// A daemon under siege: a real `simmd all` with two tenants, red and blue, each on a socket of its
// own. The attackers come by one, the honest client by the other. Thread: the test's.
#pragma once

#include <cstdint>
#include <string>

#include "ipc/fd.h"
#include "tests/support/daemon_process.h"

namespace simm::siege {

class TwoTenantDaemon : public test_support::DaemonProcess {
public:
  // Started; FAILs with its log when it does not come up. `keys` as those of DaemonProcess.
  explicit TwoTenantDaemon(const std::string& keys = "");

  [[nodiscard]] std::string red_socket() const { return directory() + "/red.sock"; }
  [[nodiscard]] std::string blue_socket() const { return directory() + "/blue.sock"; }
};

// The same with one tenant, which all clients belong to: only such a daemon maps memory that its
// owner can cut or punch.
class OneTenantDaemon : public test_support::DaemonProcess {
public:
  OneTenantDaemon();
};

// A memfd that every daemon maps: its length is sealed, and it takes the daemon's seals.
ipc::UniqueFd sealable_file(std::uint64_t bytes);

// Attaches and registers memory. A client may not be let in while the daemon hangs, so this waits
// no longer than RawClient does.
bool lets_in(const std::string& socket);

}  // namespace simm::siege
