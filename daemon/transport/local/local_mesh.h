// LocalMesh: the local transport of a whole process: one requester and one responder for each data
// agent, and a channel between each pair of them, an agent and itself included.
//
// For the least latency a data agent runs in this order: sessions (they submit), responders (they
// take requests), servers (they start moves), run_moves() of the local responder (it copies, the
// server replies), engine (it runs the requesters and completes).
// Made on the control thread, with a clock and movers that outlive it; then requester(i) and
// responder(i) belong to data agent i.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/transport/local/local_requester.h"
#include "daemon/transport/local/local_responder.h"

namespace simm::transport {

struct LocalMeshConfig {
  std::uint32_t credits = 128;      // requests on their way between two agents
  base::PeerId peer = base::kSelf;  // what engines call the servers of this mesh
  LocalResponderConfig responder;
};

// What the mesh needs of one data agent.
struct LocalMember {
  base::Waiter* waiter = nullptr;  // null: it never sleeps
  Mover* mover = nullptr;
};

class LocalMesh {
public:
  LocalMesh(const LocalMeshConfig& config, const base::Clock& clock,
            std::vector<LocalMember> members);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(requesters_.size()); }
  LocalRequester& requester(std::uint32_t agent) noexcept { return *requesters_[agent]; }
  LocalResponder& responder(std::uint32_t shard) noexcept { return *responders_[shard]; }

private:
  std::vector<std::unique_ptr<LocalChannel>> channels_;
  std::vector<std::unique_ptr<LocalRequester>> requesters_;
  std::vector<std::unique_ptr<LocalResponder>> responders_;
};

}  // namespace simm::transport
