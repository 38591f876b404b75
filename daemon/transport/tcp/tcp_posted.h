// TcpPosted: what the asking side knows of a request on a link. One for each credit, in a LazyArray
// (all-zero is its first value). Owned by a RequesterLink.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/transport/move.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::transport {

struct TcpPosted {
  // One page of the request.
  struct Page {
    std::uint64_t received = 0;  // get: bytes of it that came, also those that were dropped
    Status local = Status::ok;   // what went wrong with it on this side
    bool is_complete = false;    // get: its last frame came
    bool is_pulled = false;      // put: the server asked for it
  };

  RequestToken token = 0;
  std::uint32_t use = 0;
  bool in_use = false;
  bool is_listed = false;   // has work in the link's queue
  bool is_encoded = false;  // its request frame is queued or sent
  bool is_cancelling = false;
  bool is_cancel_listed = false;  // its cancel frame is due
  bool is_culprit = false;        // reset() named it
  bool is_abandoned = false;      // get: to be fenced as soon as no bytes of it are coming in
  bool is_abandon_listed = false;
  // Fenced, alone. It keeps its credit until the answer comes; what comes before is dropped.
  bool is_fenced = false;
  base::TimeNs fenced_ns = 0;
  std::uint16_t page_count = 0;
  RequestHeader header;
  std::span<const PageRequest> pages;  // empty once it was fenced

  // put: pages that the server pulled and that are not sent yet, in order.
  std::uint16_t pull_first = 0;
  std::uint16_t pull_count = 0;
  std::uint64_t page_sent = 0;  // of the first of them: bytes that are queued or sent
  std::uint32_t unsent = 0;     // chunks in the client's memory that the kernel has not taken yet
  bool is_moving = false;       // a copy of it is under way elsewhere, into `block`
  std::uint32_t block = 0;
  Move move;

  // get: the page that is half received.
  bool has_open_page = false;
  std::uint16_t open_page = 0;

  std::array<std::uint16_t, ipc::kPagesPerSubmissionMax> pulled;
  std::array<Page, ipc::kPagesPerSubmissionMax> states;
  std::array<PageReply, ipc::kPagesPerSubmissionMax> replies;
};

}  // namespace simm::transport
