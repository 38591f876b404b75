// NetworkNamespaces: some hosts with a network of their own each, joined by a bridge in one more:
// Linux network namespaces, veth pairs, and an nftables set in each host that drops the packets of
// the hosts in it. Nothing of it is in the network of this machine, and no namespace has a name:
// each lives as long as a process of this test's in it, so a test that crashes leaves nothing.
//
// It needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN), iproute2, nftables and util-linux.
// Thread: the one that made it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace simm::test_support {

class NetworkNamespaces {
public:
  explicit NetworkNamespaces(std::size_t hosts);
  ~NetworkNamespaces();
  NetworkNamespaces(const NetworkNamespaces&) = delete;
  NetworkNamespaces& operator=(const NetworkNamespaces&) = delete;

  // False: not here. The test has been told why by a MESSAGE, and returns.
  [[nodiscard]] bool ready() const noexcept { return is_ready_; }
  // For DaemonProcess::enter_network().
  [[nodiscard]] std::string path(std::size_t host) const;
  // IPv4, without a port.
  [[nodiscard]] static std::string address(std::size_t host);

  // Packets on that way are dropped from now on.
  void block(std::size_t from, std::size_t to);
  // All ways are open again.
  void mend();

private:
  bool enter();
  bool join(std::size_t host);
  // What runs in that namespace; `process` of it. False: it failed, and its words were told.
  bool run(pid_t process, const std::string& command);

  std::vector<pid_t> hosts_;
  pid_t hub_ = -1;
  bool is_ready_ = false;
};

}  // namespace simm::test_support
