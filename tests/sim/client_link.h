// ClientLink: a simulated client's attachment to a node: the session's shared memory (plain memory
// here), the production Session at one end of it and the production ClientLanes at the other.
// Belongs to the node; a client drops its pointer when the node crashes.
// Thread: the one simulated thread.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "daemon/session/session.h"
#include "ipc/client_lane.h"

namespace simm::sim {

struct ClientLink {
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  std::unique_ptr<std::byte, Free> memory;
  std::unique_ptr<session::Session> session;
  std::vector<ipc::ClientLane> lanes;
  ipc::RegionHandle handle = ipc::kNoRegion;
  std::uint16_t other_name_space = 0;      // id of the second namespace
  std::uint16_t immutable_name_space = 0;  // the same, of a client who says that it is immutable
  std::uint32_t node = 0;
  std::span<const std::byte> shared_reads;  // memory of the node's; empty: it has none
  std::function<void()> on_activity;        // the node has done something: there may be completions
};

}  // namespace simm::sim
