// RdmaPosted: what the asking side knows of a request on a link. One for each credit, in a
// LazyArray (all-zero is its first value). Owned by a RdmaRequesterLink.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/transport/rdma/message_wire.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::transport {

struct RdmaPosted {
  RequestToken token = 0;
  std::uint32_t use = 0;
  bool in_use = false;
  bool is_cancelling = false;
  bool is_cancel_listed = false;  // its cancel is due
  bool has_unread = false;
  bool is_culprit = false;    // reset() named it
  bool owes_stripe = false;   // what it is a stripe of is not said yet
  wire::StripeBody stripe;    // then
  std::uint16_t targets = 0;  // at the start of the body
  base::TimeNs deadline_ns = 0;
  base::TenantId tenant;
  ipc::Opcode opcode = ipc::Opcode::noop;
  std::span<const PageRequest> pages;  // the engine's again with the first word of the answer
  std::uint64_t payload_bytes = 0;     // of all slices
  std::uint32_t body_bytes = 0;
  std::uint32_t body_sent = 0;
  std::uint32_t reply_bytes = 0;     // of the whole reply, once its first part came
  std::uint32_t reply_received = 0;  // bytes

  std::array<PageReply, ipc::kPagesPerSubmissionMax> replies;
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax> inline_at;
  std::array<bool, ipc::kPagesPerSubmissionMax> is_unread;  // put: its memory failed
  std::array<std::byte, wire::kReplyMessageBytesMax> reply;
  std::array<std::byte, wire::kRequestMessageBytesMax> body;
};

}  // namespace simm::transport
