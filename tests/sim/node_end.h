// NodeEnd: a simulated node's end of its transport: what its engine asks through, and what the rest
// of the node and the books want to know of it. Thread: the one simulated thread; upcalls come from
// do_work() only.
#pragma once

#include <functional>
#include <span>

#include "daemon/transport/transport.h"

namespace simm::sim {

class NodeEnd : public transport::Requester {
public:
  // Called whenever do_work() would find something.
  std::function<void()> wake = [] {};
  // The network's number of a peer of this node; 0: nobody. By default they are the same.
  std::function<std::uint32_t(base::PeerId)> resolve = [](base::PeerId peer) { return peer.value; };

  // The node has died: everything under way is fenced, nothing is posted any more. The engine may
  // still be given turns, so that it can be destroyed in order.
  virtual void crash() = 0;

  // A client has attached with these pages.
  virtual void add_memory(std::span<std::byte>) {}
  // A peer of so many shards is in the map now, or is not any more.
  virtual void add_peer(base::PeerId, std::uint16_t) {}
  virtual void drop_peer(base::PeerId) {}
  // Nothing is under way to that peer, and no connection is left.
  [[nodiscard]] virtual bool is_rid_of(base::PeerId peer) const = 0;

  [[nodiscard]] virtual std::size_t outstanding() const noexcept = 0;
};

}  // namespace simm::sim
