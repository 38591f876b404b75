// EmulatedNetwork: some hosts of one machine, joined by lines of any delay, rate, queue, loss and
// order. Each host is a network namespace with a TUN device; a process of ours carries whole IP
// packets between the devices as a ShapedLine for each direction says. So the TCP of both ends is
// the kernel's own. No namespace has a name, and nothing of them is in this machine's network: all
// is gone with the object, or with the process that made it.
//
// Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and /dev/net/tun.
// Thread: any one; made before other threads are (it forks).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/shaped_line.h"
#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::bench {

struct NetworkControl;

class EmulatedNetwork {
public:
  // All lines are without delay and limit at first. permission_denied: not allowed here;
  // not_found: no /dev/net/tun.
  static Expected<EmulatedNetwork> start(std::size_t hosts, std::uint64_t seed,
                                         std::uint32_t mtu_bytes = 1500);
  EmulatedNetwork(EmulatedNetwork&& other) noexcept;
  EmulatedNetwork& operator=(EmulatedNetwork&&) = delete;
  ~EmulatedNetwork();

  // The host's network namespace, as a path like /proc/123/fd/4.
  [[nodiscard]] std::string path(std::size_t host) const;
  // IPv4, without a port.
  [[nodiscard]] static std::string address(std::size_t host);

  // Holds for packets that are offered from now on.
  void shape(std::size_t from, std::size_t to, const LineShape& shape);
  void shape_all(const LineShape& shape);
  // Packets on that way with that fate, since the start.
  [[nodiscard]] std::uint64_t packets(std::size_t from, std::size_t to, PacketFate fate) const;

private:
  struct Unmap {
    void operator()(NetworkControl* control) const noexcept;
  };
  using ControlMapping = std::unique_ptr<NetworkControl, Unmap>;

  EmulatedNetwork(std::vector<ipc::UniqueFd> networks, ControlMapping control, pid_t carrier);

  std::vector<ipc::UniqueFd> networks_;
  ControlMapping control_;  // shared with the carrier
  pid_t carrier_ = -1;
};

}  // namespace simm::bench
