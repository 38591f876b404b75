// TcpIncoming: a request that came over a link, as the serving side keeps it. One for each credit,
// in a LazyArray (all-zero is its first value). Owned by a ResponderLink.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/transport/tcp/wire.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::transport {

class ResponderLink;

struct TcpIncoming : Incoming {
  enum class MoveKind : std::uint8_t { none, pull, push };
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
  std::uint32_t slot = 0;
  std::uint32_t use = 0;
  bool is_served = false;    // from on_request() to reply() or on_aborted()
  bool is_replying = false;  // answered, and the reply is not queued yet
  bool is_cancelled = false;
  bool is_listed = false;  // has work in the link's queue
  std::uint16_t page_count = 0;
  std::uint16_t moves_open = 0;

  // Pushes in order. The first may be half sent.
  std::uint16_t push_first = 0;
  std::uint16_t push_count = 0;
  // Pulls that the requester has not been told of, and inline ones that are not copied yet.
  std::uint16_t pull_first = 0;
  std::uint16_t pull_count = 0;
  // The pulled page that is half received.
  bool has_open_page = false;
  std::uint16_t open_page = 0;

  std::array<std::uint16_t, ipc::kPagesPerSubmissionMax> pushes;
  std::array<std::uint16_t, ipc::kPagesPerSubmissionMax> pulls;
  std::array<PageMove, ipc::kPagesPerSubmissionMax> moves;
  std::array<PageRequest, ipc::kPagesPerSubmissionMax> page_list;
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax> inline_at;  // in `body`; 0: not inline
  std::array<PageReply, ipc::kPagesPerSubmissionMax> replies;
  std::array<std::byte, wire::kRequestBodyBytesMax> body;  // keys and inline payloads stay in it
};

}  // namespace simm::transport
