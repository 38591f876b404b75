// SimConnection: one simulated TCP connection between a node and a server: for each direction what
// the sender's kernel has taken and what flies, for each end what has arrived and was not read.
// Plain state; SocketNetwork moves it. Owned by shared pointers of the network and of its events.
// Thread: the one simulated thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/sim/event_loop.h"

namespace simm::sim {

class SimSocketIo;

// What flies: some bytes, or the news that none come any more.
struct Segment {
  enum class Kind : std::uint8_t { data, end, reset };
  Kind kind = Kind::data;
  base::TimeNs due_ns = 0;  // not before
  std::vector<std::byte> bytes;
  std::size_t delivered = 0;
  bool is_forged = false;  // its sender knows nothing of it
};

struct SocketEnd {
  int descriptor = -1;
  SimSocketIo* io = nullptr;  // of its process; null: closed, or the process is dead

  // Towards the other end.
  std::deque<Segment> flying;
  base::TimeNs last_due_ns = 0;
  std::uint64_t taken = 0;  // bytes, from the process
  std::uint64_t delivered = 0;
  std::uint64_t acknowledged = 0;
  bool is_cut = false;     // nothing gets on
  bool has_ended = false;  // the process can send nothing any more
  bool has_reset = false;  // and the other end is told that nobody reads here

  // From the other end.
  std::vector<std::byte> inbox;
  std::size_t read = 0;   // of the inbox
  bool at_end = false;    // the other end sends nothing any more
  bool is_reset = false;  // nothing goes either way any more
  bool is_shut = false;   // the process reads nothing any more
  bool is_mute = false;   // its machine has gone: it answers nothing at all

  [[nodiscard]] std::size_t unread() const { return inbox.size() - read; }
};

struct SimConnection {
  std::uint64_t id = 0;
  std::uint32_t node = 0;
  std::uint32_t peer = 0;
  std::array<SocketEnd, 2> ends;  // of the node, of the server

  static constexpr std::size_t kNode = 0;
  static constexpr std::size_t kServer = 1;
};

using ConnectionPtr = std::shared_ptr<SimConnection>;

}  // namespace simm::sim
