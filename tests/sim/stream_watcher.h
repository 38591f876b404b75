// StreamWatcher: sees what nodes send to servers over simulated sockets, and when a server's end
// reads nothing any more. The books of requests use it. Thread: the one simulated thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace simm::sim {

class StreamWatcher {
public:
  virtual ~StreamWatcher() = default;
  // The node's kernel has taken these bytes of that connection.
  virtual void on_sent(std::uint64_t connection, std::span<const std::byte> bytes) = 0;
  // What the server has not read by now it never will.
  virtual void on_server_end(std::uint64_t connection) = 0;
};

}  // namespace simm::sim
