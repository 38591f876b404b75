// LinkIncoming: a request that came over a link between daemons, as its serving end keeps it: what
// every such transport knows of it. Each has fields of its own beside. One for each credit, in a
// LazyArray (all-zero is its first value). Owned by the serving end of a link.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/transport/request_codec.h"
#include "daemon/transport/request_wire.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::transport {

enum class MoveKind : std::uint8_t { none, pull, push };

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

struct LinkIncoming : Incoming {
  std::uint32_t slot = 0;
  std::uint32_t use = 0;
  bool is_served = false;    // from on_request() to reply() or on_aborted()
  bool is_replying = false;  // answered, and the reply is not all on its way yet
  bool is_cancelled = false;
  bool is_listed = false;  // has work in the link's queue
  std::uint16_t page_count = 0;
  std::uint16_t moves_open = 0;

  std::array<PageRequest, ipc::kPagesPerSubmissionMax> page_list;
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax> inline_at;  // in the body; 0: not inline
};

}  // namespace simm::transport
