// LocalMesh: the local transport of a whole process: one requester and one responder for each data
// agent, and a channel between each pair of them, an agent and itself included.
//
// For the least latency a data agent runs in this order: sessions (they submit), responders (they
// take requests), servers (they start moves), run_moves() of the local responder (it copies, the
// server replies), engine (it runs the requesters and completes).
// Made on the control thread, with a clock and movers that outlive it; then requester(i) and
// responder(i) belong to data agent i.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/transport/local/local_requester.h"
#include "daemon/transport/local/local_responder.h"

namespace simm::transport {

// Requests on their way from one agent to all others. Each costs memory from the start, of which
// many agents would take as much as their square.
inline constexpr std::uint32_t kLocalCreditsMax = 2048;

struct LocalMeshConfig {
  // Requests on their way between two agents: at most this, and a part of kLocalCreditsMax.
  std::uint32_t credits = 128;
  base::PeerId peer = base::kSelf;  // what engines call the servers of this mesh
  LocalResponderConfig responder;

  // Between each two of so many agents, at least 1.
  [[nodiscard]] std::uint32_t credits_of(std::uint32_t agents) const noexcept {
    return std::min(credits, kLocalCreditsMax / agents);
  }
};

// What the mesh needs of one data agent.
struct LocalMember {
  base::Waiter* waiter = nullptr;  // null: it never sleeps
  Mover* mover = nullptr;
};

class LocalMesh {
public:
  // At most LocalInbox::kChannelsMax members.
  LocalMesh(const LocalMeshConfig& config, const base::Clock& clock,
            std::vector<LocalMember> members);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(requesters_.size()); }
  LocalRequester& requester(std::uint32_t agent) noexcept { return *requesters_[agent]; }
  LocalResponder& responder(std::uint32_t shard) noexcept { return *responders_[shard]; }

private:
  std::vector<LocalInbox> requester_inboxes_;  // of each agent
  std::vector<LocalInbox> responder_inboxes_;
  std::vector<std::unique_ptr<LocalChannel>> channels_;
  std::vector<std::unique_ptr<LocalRequester>> requesters_;
  std::vector<std::unique_ptr<LocalResponder>> responders_;
};

}  // namespace simm::transport
