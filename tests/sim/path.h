// Path: one connection between a node and one shard of a server, from its establishment to its end;
// a new one is made afterwards. Messages arrive in order, later than they were sent, or (dead path)
// never. A path that is cut in one direction, or in both, holds back what goes that way until it
// heals or dies; bytes move only while both are open.
// Owned by shared pointers of the events that refer to it.
// Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/sim/event_loop.h"
#include "tests/sim/wire_request.h"

namespace simm::sim {

class SimRequester;
class SimResponder;

struct Path {
  std::uint64_t id = 0;  // grows: a later path of the same connection has a greater one
  std::uint32_t node = 0;
  transport::Route route;
  SimRequester* requester = nullptr;  // null: the node has crashed
  SimResponder* responder = nullptr;  // null: the server has crashed

  bool dead = false;         // no message arrives and no move touches the node's memory any more
  bool node_closed = false;  // the node is fencing it or has fenced it
  bool server_closed = false;
  bool cut_to_server = false;  // what goes that way is held
  bool cut_to_node = false;

  base::TimeNs next_at_server_ns = 0;  // first in, first out
  base::TimeNs next_at_node_ns = 0;
  std::vector<std::function<void()>> held;

  std::vector<std::shared_ptr<WireRequest>> outstanding;  // posted, neither replied nor fenced
  std::vector<std::uint64_t> culprits;                    // serials that caused a reset
};

using PathPtr = std::shared_ptr<Path>;

}  // namespace simm::sim
