// WireRequest: one posted request, as it would look on the wire, and what became of it: for the
// books of the simulation, and for the transport that has no bytes. Nothing in it points into the
// engine except the slices, which stand for remote keys.
// Owned by shared pointers of whoever works with it. Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/transport/transport.h"

namespace simm::sim {

// What a request travels over: the production transports, or the paths of the simulation.
enum class Carrier : std::uint8_t { sockets, queue_pairs };

struct WireRequest {
  std::uint64_t serial = 0;  // unique in a run: a token may be used again, a serial never
  std::uint32_t node = 0;
  transport::Route to;
  base::TimeNs posted_ns = 0;
  // Of the server's map, by page: when it took the request, began to push the page, or learnt that
  // its pull was over.
  std::vector<base::Epoch> server_epochs;
  transport::RequestToken token = 0;
  transport::RequestHeader header;
  base::TimeNs remaining_ns = 0;  // of its deadline when it was sent
  std::vector<transport::PageRequest> pages;
  std::vector<char> keys;
  std::vector<std::byte*> addresses;  // of the slices: remote keys, resolved
  bool arrived = false;               // at the server
  bool answered = false;              // by the server
  bool server_done = false;           // it can change nothing at the server any more
  // Of one that came over a queue pair: what was posted. It comes again when its queue pair fails.
  std::shared_ptr<WireRequest> posted;

  void note_answer() {
    answered = true;
    if (posted != nullptr) posted->answered = true;
  }

  static std::shared_ptr<WireRequest> of(transport::RequestToken token,
                                         const transport::Request& request, base::TimeNs now_ns);
};

using WireRequestPtr = std::shared_ptr<WireRequest>;

}  // namespace simm::sim
