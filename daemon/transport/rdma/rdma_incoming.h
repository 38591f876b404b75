// RdmaIncoming: a request that came over a link, as the serving side keeps it. One for each credit,
// in a LazyArray (all-zero is its first value). Owned by a RdmaResponderLink.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/transport/rdma/message_codec.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::transport {

class RdmaResponderLink;

// Page numbers in the order in which they came.
struct PageRing {
  std::uint16_t first = 0;
  std::uint16_t count = 0;
  std::array<std::uint16_t, ipc::kPagesPerSubmissionMax> pages;

  [[nodiscard]] std::uint16_t front() const noexcept { return pages[first]; }
  void push(std::uint16_t page) noexcept {
    pages[(first + count) % pages.size()] = page;
    ++count;
  }
  void pop() noexcept {
    first = static_cast<std::uint16_t>((first + 1u) % pages.size());
    --count;
  }
  void clear() noexcept { first = count = 0; }
};

struct RdmaIncoming : Incoming {
  enum class MoveKind : std::uint8_t { none, pull, push };
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
  std::uint32_t slot = 0;
  std::uint32_t use = 0;
  std::uint32_t stripe_use = 0;  // what was said of the request that comes with it; 0: nothing
  wire::StripeBody stripe;       // of a request that is one
  bool is_stripe = false;
  bool is_served = false;    // from on_request() to reply() or on_aborted()
  bool is_replying = false;  // answered, and the reply is not all sent yet
  bool is_arriving = false;  // parts of the request are still to come
  bool is_cancelled = false;
  bool is_listed = false;  // has work in the link's queue
  std::uint16_t page_count = 0;
  std::uint16_t moves_open = 0;
  std::uint16_t target_count = 0;
  std::uint32_t body_bytes = 0;     // of the whole request
  std::uint32_t body_received = 0;  // of those
  std::uint32_t reply_bytes = 0;
  std::uint32_t reply_sent = 0;
  std::uint32_t payload_bytes = 0;  // that go inline in the reply

  PageRing orders;   // of the server, not all posted
  PageRing digests;  // pulled, not digested

  std::array<PageMove, ipc::kPagesPerSubmissionMax> moves;
  std::array<PageRequest, ipc::kPagesPerSubmissionMax> page_list;
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax> inline_at;  // in the body; 0: not inline
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax>
      answer_at;  // 1 + place in `payloads`, or 0
  std::array<PageTargets, ipc::kPagesPerSubmissionMax> targets_of;
  std::array<wire::RemoteTarget, wire::kTargetsMax> targets;
  std::array<std::byte, kInlineMessageBytes> payloads;
  std::array<std::byte, wire::kReplyMessageBytesMax> reply;
  std::array<std::byte, wire::kRequestMessageBytesMax> body;  // keys stay in it
};

}  // namespace simm::transport
