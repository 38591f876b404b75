// TcpIncoming: a request that came over a TCP link, as the serving side keeps it. One for each
// credit, in a LazyArray (all-zero is its first value). Owned by a ResponderLink.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/transport/link_incoming.h"
#include "daemon/transport/tcp/wire.h"

namespace simm::transport {

class ResponderLink;

struct TcpIncoming : LinkIncoming {
  struct PageMove {
    std::byte* memory = nullptr;  // the server's; only read by a push
    std::uint64_t length = 0;
    std::uint64_t moved = 0;        // bytes received, or queued to be sent
    std::uint64_t digest = 0;       // push: when all of it is queued
    std::uint32_t chunks_open = 0;  // push: queued where they lie, not taken by the kernel yet
    MoveKind kind = MoveKind::none;
    bool is_passed = false;  // push: no more of it is queued; it is over when no chunk is open
  };

  ResponderLink* link = nullptr;
  // The pulled page that is half received.
  bool has_open_page = false;
  std::uint16_t open_page = 0;

  PageRing pushes;  // the first may be half sent
  PageRing pulls;   // that the requester has not been told of, and inline ones not copied yet
  std::array<PageMove, ipc::kPagesPerSubmissionMax> moves;
  std::array<PageReply, ipc::kPagesPerSubmissionMax> replies;
  std::array<std::byte, wire::kRequestBodyBytesMax> body;  // keys and inline payloads stay in it
};

}  // namespace simm::transport
