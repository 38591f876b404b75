// The two ends of the tests that count allocations: they keep their state in arrays, so that what
// is counted is the transport's. Thread: that of the test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/transport/transport.h"

namespace frugal_ends {

using namespace simm;
using namespace simm::transport;

// Of each request.
constexpr std::uint64_t kPages = 3;

// Moves every page at once, into and out of one extent.
struct FrugalServer final : ResponderEvents {
  explicit FrugalServer(std::uint64_t bytes) : extent(bytes) {}
  void on_request(Incoming& incoming) noexcept override {
    open = incoming.pages.size();
    for (std::uint16_t page = 0; page < incoming.pages.size(); ++page) {
      const auto bytes = std::span(extent).first(incoming.pages[page].slice.length);
      replies[page] = {Status::ok, bytes.size()};
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, page, bytes);
      } else {
        incoming.responder->push(incoming, page, bytes, true);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult) noexcept override {
    if (--open == 0) {
      incoming.responder->reply(incoming, std::span(replies).first(incoming.pages.size()));
    }
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override {}
  std::vector<std::byte> extent;
  std::array<PageReply, kPages> replies{};
  std::size_t open = 0;
};

struct FrugalRequester final : RequesterEvents {
  void on_reply(RequestToken, std::span<const PageReply> pages) noexcept override {
    ++answered;
    for (const PageReply& page : pages) bad += page.status == Status::ok ? 0 : 1;
  }
  void on_fenced(RequestToken, FenceCause) noexcept override { ++bad; }
  int answered = 0;
  int bad = 0;
};

}  // namespace frugal_ends
