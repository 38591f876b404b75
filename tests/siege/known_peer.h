// KnownPeer: a connection of somebody who knows the cluster's secret and says an honest hello, to a
// shard of a storage daemon or to the manager; what follows is whatever the test wants.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/hello/hello_dialer.h"
#include "ipc/fd.h"

namespace simm::siege {

// Who is dialled, and the secret.
struct KnownDaemon {
  std::string address;  // "127.0.0.1:port"
  cluster::Incarnation incarnation;
  std::string secret_file;
  int hello_ms = 60'000;  // so long one of its answers may take
};

// To that address; from `source` ("127.3.2.1"), if it is not empty. Invalid: nobody is there, or
// the connection took more than two seconds.
ipc::UniqueFd connect_to(const std::string& address, const std::string& source = "");

class KnownPeer {
public:
  // Waits for the end of the hello, at most some seconds.
  KnownPeer(const KnownDaemon& daemon, const cluster::DaemonIdentity& who,
            const cluster::HelloRequest& request);
  // As the node of that name, to the first shard.
  KnownPeer(const KnownDaemon& daemon, const std::string& name, std::uint64_t link);

  // What any daemon says there first, to that shard: it needs no secret, and proves nothing.
  static std::vector<std::byte> first_words(const KnownDaemon& daemon);

  [[nodiscard]] bool is_welcome() const { return is_welcome_; }
  [[nodiscard]] cluster::HelloRefusal refusal() const { return refusal_; }
  [[nodiscard]] const cluster::Mac& send_key() const { return send_key_; }
  // All of them; false: the daemon has hung up.
  bool say(const std::vector<std::byte>& bytes);
  // Waits until the daemon has said something or hung up; false: neither, for some seconds.
  [[nodiscard]] bool hears() const;
  // Bytes that no data agent sends; how many the kernel has taken.
  std::size_t say_garbage(std::size_t bytes);
  // The daemon has hung up.
  [[nodiscard]] bool is_over() const;

private:
  void greet(const KnownDaemon& daemon, const cluster::DaemonIdentity& who,
             const cluster::HelloRequest& request);

  ipc::UniqueFd socket_;
  cluster::Mac send_key_{};
  bool is_welcome_ = false;
  cluster::HelloRefusal refusal_ = cluster::HelloRefusal::none;
};

}  // namespace simm::siege
