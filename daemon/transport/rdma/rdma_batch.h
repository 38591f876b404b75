// RdmaBatch: a request of an engine while an RdmaRequester has it: in one part, or in a part for
// each of several rails. A page is in one part, so it goes over one rail, whole; only in a striped
// batch, whose parts the server puts together, a long page may be in several. One for each request
// that can be out, in a LazyArray (all-zero is its first value).
// Owned by a RdmaRequester. Thread: its data agent.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/transport/rdma/rdma_config.h"
#include "daemon/transport/rdma/registration/chunk_table.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::transport {

struct RdmaBatch {
  enum class PartState : std::uint8_t {
    over = 0,
    waiting,  // for a link with credit
    out,      // on a link
  };
  struct Part {
    std::uint16_t first_page = 0;
    std::uint16_t page_count = 0;
    PartState state = PartState::over;
    bool is_second_try = false;      // its first link has failed
    std::uint64_t first_offset = 0;  // of a stripe, in its first page
  };

  RequestToken token = 0;
  Route route;
  bool in_use = false;
  bool is_listed = false;  // has parts that wait
  bool is_cancelled = false;
  bool is_reset = false;    // the engine gave it up
  bool is_fenced = false;   // some part has no answer
  bool is_culprit = false;  // and broke its link for that
  bool is_striped = false;
  bool is_undone = false;         // striped: some part was not answered, or not like the others
  std::uint8_t stripe_count = 0;  // parts with pages
  std::uint16_t answered = 0;     // striped: pages that some part has answered, a bit for each
  std::uint64_t stripe_number = 0;
  std::uint8_t part_count = 0;
  std::uint8_t parts_open = 0;
  RequestHeader header;
  std::span<const PageRequest> pages;
  std::array<Part, kRailsMax> parts;
  std::array<PageReply, ipc::kPagesPerSubmissionMax> replies;  // of several parts
  // Striped: the pages of each part, cut to its slices.
  std::array<std::array<PageRequest, kStripedPagesMax>, kRailsMax> stripes;
};

}  // namespace simm::transport
