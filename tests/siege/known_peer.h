// KnownPeer: a connection of somebody who knows the cluster's secret and says an honest hello to a
// shard of a storage daemon; what follows is whatever the test wants. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/cluster/hello/hello_dialer.h"
#include "ipc/fd.h"

namespace simm::siege {

// Who is dialled, and the secret.
struct KnownDaemon {
  std::string address;  // "127.0.0.1:port"
  cluster::Incarnation incarnation;
  std::string secret_file;
};

// To that address, not blocking after that; invalid: nobody is there.
ipc::UniqueFd connect_to(const std::string& address);

class KnownPeer {
public:
  // As the node of that name. Waits for the end of the hello, at most some seconds.
  KnownPeer(const KnownDaemon& daemon, const std::string& name, std::uint64_t link);

  [[nodiscard]] bool is_welcome() const { return is_welcome_; }
  [[nodiscard]] cluster::HelloRefusal refusal() const { return refusal_; }
  // Bytes that no data agent sends; how many the kernel has taken.
  std::size_t say_garbage(std::size_t bytes);
  // The daemon has hung up.
  [[nodiscard]] bool is_over() const;

private:
  ipc::UniqueFd socket_;
  bool is_welcome_ = false;
  cluster::HelloRefusal refusal_ = cluster::HelloRefusal::none;
};

}  // namespace simm::siege
