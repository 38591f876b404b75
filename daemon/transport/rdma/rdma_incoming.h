// RdmaIncoming: a request that came over an RDMA link, as the serving side keeps it. One for each
// credit, in a LazyArray (all-zero is its first value). Owned by a RdmaResponderLink.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/transport/link_incoming.h"
#include "daemon/transport/rdma/message_codec.h"

namespace simm::transport {

class RdmaResponderLink;

struct RdmaIncoming : LinkIncoming {
  struct PageMove {
    std::byte* memory = nullptr;  // the server's; only read by a push
    std::uint64_t length = 0;
    std::uint64_t posted = 0;    // bytes
    std::uint64_t ended = 0;     // of those
    std::uint64_t digested = 0;  // bytes
    std::uint64_t digest = 0;
    MoveKind kind = MoveKind::none;
    bool is_ready = false;  // to be moved: a push whose digest is wanted has it
  };

  RdmaResponderLink* link = nullptr;
  std::uint32_t stripe_use = 0;  // what was said of the request that comes with it; 0: nothing
  wire::StripeBody stripe;       // of a request that is one
  bool is_stripe = false;
  bool is_arriving = false;  // parts of the request are still to come
  std::uint16_t target_count = 0;
  std::uint32_t body_bytes = 0;     // of the whole request
  std::uint32_t body_received = 0;  // of those
  std::uint32_t reply_bytes = 0;
  std::uint32_t reply_sent = 0;
  std::uint32_t payload_bytes = 0;  // that go inline in the reply

  PageRing orders;   // of the server, not all posted
  PageRing digests;  // pulled, not digested

  std::array<PageMove, ipc::kPagesPerSubmissionMax> moves;
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax>
      answer_at;  // 1 + place in `payloads`, or 0
  std::array<PageTargets, ipc::kPagesPerSubmissionMax> targets_of;
  std::array<wire::RemoteTarget, wire::kTargetsMax> targets;
  std::array<std::byte, kInlineMessageBytes> payloads;
  std::array<std::byte, wire::kReplyMessageBytesMax> reply;
  std::array<std::byte, wire::kRequestMessageBytesMax> body;  // keys stay in it
};

}  // namespace simm::transport
