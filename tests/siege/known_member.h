// KnownMember: a control connection of somebody who knows the cluster's secret, to its manager. The
// hello is honest; the messages that follow are whatever the test wants. Thread: one at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "daemon/cluster/hello/frame_sealer.h"
#include "tests/siege/known_peer.h"

namespace simm::siege {

class KnownMember {
public:
  KnownMember(const KnownDaemon& manager, const cluster::DaemonIdentity& who);

  [[nodiscard]] bool is_welcome() const { return peer_.is_welcome(); }
  // A message in its frame, tagged as it has to be; false: the manager has hung up before.
  bool say(const std::vector<std::byte>& message);
  // Waits until the manager has answered or hung up; false: neither, for some seconds.
  [[nodiscard]] bool hears() const;

private:
  KnownPeer peer_;
  std::optional<cluster::FrameSealer> sealer_;  // of a connection
};

}  // namespace simm::siege
