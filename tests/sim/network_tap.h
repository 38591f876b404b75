// NetworkTap: sees what passes on the simulated wire. Histories use it: what the servers were
// asked, what they answered, and from when on a request can have no more effect.
#pragma once

#include "tests/sim/path.h"

namespace simm::sim {

class NetworkTap {
public:
  virtual ~NetworkTap() = default;
  virtual void on_posted(std::uint32_t node, const WireRequest& request) = 0;
  // A server begins with a request that had come before.
  virtual void on_asked_again(const WireRequest& request) = 0;
  // The server's answer, when it leaves the server.
  virtual void on_answered(const WireRequest& request,
                           std::span<const transport::PageReply> pages) = 0;
  // The server has forgotten the request, or it never arrived and never will.
  virtual void on_server_done(const WireRequest& request) = 0;
};

}  // namespace simm::sim
