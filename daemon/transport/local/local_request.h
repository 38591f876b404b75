// LocalRequest: a request inside one process, in a slot of a LocalChannel. The slot changes hands
// with messages: the requester fills it and gives it away with `command`, the responder works on it
// and gives it back with `event`. Each side touches it only while it holds it.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/transport/move.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::transport {

// The Incoming's header and pages are set by the requester, the rest by the responder.
struct LocalRequest : Incoming {
  // The responder's own.
  std::uint32_t lane = 0;   // of the responder
  std::uint32_t index = 0;  // of the slot
  LocalRequest* next_active = nullptr;
  bool active = false;  // its moves are listed to be run, or being run
  bool cancelled = false;
  bool aborting = false;  // the requester reset it: on_aborted() as soon as no move is under way
  std::uint16_t move_first = 0;
  std::uint16_t move_count = 0;

  // What the requester gets back.
  std::uint16_t reply_count = 0;
  const memory::Region* faulted = nullptr;  // the first region that failed under a copy

  // A queue: at most one move of each page is open.
  std::array<Move, ipc::kPagesPerSubmissionMax> moves;
  std::array<PageReply, ipc::kPagesPerSubmissionMax> replies;
};

}  // namespace simm::transport
