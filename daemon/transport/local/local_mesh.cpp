#include "daemon/transport/local/local_mesh.h"

#include <utility>

#include "simm/check.h"

namespace simm::transport {

LocalMesh::LocalMesh(const LocalMeshConfig& config, const base::Clock& clock,
                     std::vector<LocalMember> members)
    : requester_inboxes_(members.size()), responder_inboxes_(members.size()) {
  const std::size_t count = members.size();
  SIMM_CHECK(count > 0 && count <= LocalInbox::kChannelsMax);
  const std::uint32_t credits = config.credits_of(static_cast<std::uint32_t>(count));
  std::vector<std::vector<LocalChannel*>> from(count);
  std::vector<std::vector<LocalChannel*>> to(count);
  for (std::size_t agent = 0; agent < count; ++agent) {
    for (std::size_t shard = 0; shard < count; ++shard) {
      // An agent does not have to wake itself.
      const bool is_same = agent == shard;
      channels_.push_back(std::make_unique<LocalChannel>(
          credits,
          LocalEnd{requester_inboxes_[agent], static_cast<std::uint32_t>(shard),
                   is_same ? nullptr : members[agent].waiter},
          LocalEnd{responder_inboxes_[shard], static_cast<std::uint32_t>(agent),
                   is_same ? nullptr : members[shard].waiter}));
      from[agent].push_back(channels_.back().get());
      to[shard].push_back(channels_.back().get());
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    requesters_.push_back(
        std::make_unique<LocalRequester>(std::move(from[i]), requester_inboxes_[i], config.peer));
    responders_.push_back(std::make_unique<LocalResponder>(
        config.responder, clock, std::move(to[i]), responder_inboxes_[i], *members[i].mover));
  }
}

}  // namespace simm::transport
