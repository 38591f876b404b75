// LinkRoster: which of a requester's links to one shard are in use, as it says itself. Whoever gave
// a link up has told its clients that the requests on it failed, and what it asks for over other
// links from then on must not be overtaken by what the old link still carries: bytes wait in
// networks and socket buffers for as long as they like. So each link begins with a roster, and
// after the end of one the others say a new one before their next request; the server ends every
// link that a roster leaves out. No clock is involved, and nothing has to be acknowledged.
//
// Links have numbers, counted by their requester; each statement takes a number of the same row, so
// of two rosters the one with the greater number is the newer one, whichever came first. A plain
// value. Thread: any.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "daemon/transport/request_wire.h"

namespace simm::transport {

struct LinkRoster {
  std::uint64_t requester = 0;  // random: one TcpRequester on one route; never 0
  std::uint64_t statement = 0;  // greater than the number of any link before it
  std::uint64_t link = 0;       // the one that this came over
  std::uint32_t count = 0;
  std::array<std::uint64_t, wire::kRosterLinksMax> links{};  // in use, `link` among them

  [[nodiscard]] std::span<const std::uint64_t> in_use() const noexcept {
    return std::span(links).first(count);
  }
  // Was given up by its requester before this was said. A younger link is not known to it.
  [[nodiscard]] bool leaves_out(std::uint64_t number) const noexcept {
    return number < statement &&
           std::find(in_use().begin(), in_use().end(), number) == in_use().end();
  }
};

}  // namespace simm::transport
