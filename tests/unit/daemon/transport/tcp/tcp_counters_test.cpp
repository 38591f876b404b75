// What goes over the network is counted at both ends: every byte of it, once.
#include <doctest/doctest.h>

#include <algorithm>

#include "daemon/transport/tcp/wire.h"
#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_counters_test {

using namespace local_world;
using support::TcpEnds;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPageBytes = 400'000;

struct PushingServer final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    incoming.responder->push(incoming, 0, extent, false);
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    const PageReply reply{result.status, extent.size()};
    incoming.responder->reply(incoming, {&reply, 1});
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override {}
  explicit PushingServer(std::uint64_t bytes = kPageBytes) : extent(bytes) {}
  std::vector<std::byte> extent;
};

TEST_CASE("tcp counters: both ends count what a get brings, headers and payload") {
  for (const SocketIoChoice choice : support::io_choices()) {
    CAPTURE(static_cast<int>(choice));
    PushingServer server;
    TestRegion memory(kPageBytes);
    const Ask ask(memory.region, ipc::Opcode::get, 1, kPageBytes);
    Answers requester;
    TcpEnds ends(choice);
    ends.requester.connect(requester, nullptr);
    ends.responder.connect(server);
    ends.dial(kRoute);
    ends.turn();
    REQUIRE(ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    REQUIRE(ends.turn_until([&] { return requester.replied.size() == 1; }));
    ends.turn();  // the last send is noted
    const std::uint64_t brought = ends.counters.value("asking.received_bytes");
    CHECK(brought > kPageBytes);
    CHECK(brought < kPageBytes + 20 * sizeof(wire::FrameHeader));
    CHECK(ends.counters.value("serving.sent_bytes") == brought);
    CHECK(ends.counters.value("asking.sent_bytes") > sizeof(wire::FrameHeader));
    CHECK(ends.counters.value("serving.received_bytes") ==
          ends.counters.value("asking.sent_bytes"));
  }
}

// Who asks meanwhile waits for the end of the turn.
TEST_CASE("tcp counters: one turn of a responder moves few bytes, however many there are") {
  constexpr std::uint64_t kLongBytes = 16 << 20;
  for (const SocketIoChoice choice : support::io_choices()) {
    CAPTURE(static_cast<int>(choice));
    PushingServer server(kLongBytes);
    TestRegion memory(kLongBytes);
    const Ask ask(memory.region, ipc::Opcode::get, 1, kLongBytes);
    Answers requester;
    TcpEnds ends(choice);
    ends.requester.connect(requester, nullptr);
    ends.responder.connect(server);
    ends.dial(kRoute);
    ends.turn();
    REQUIRE(ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    std::uint64_t most = 0;
    for (int turn = 0; turn < 100'000 && requester.replied.empty(); ++turn) {
      ends.requester.do_work();
      ends.network_turn();
      const std::uint64_t before = ends.counters.value("serving.sent_bytes");
      ends.responder.do_work();
      most = std::max(most, ends.counters.value("serving.sent_bytes") - before);
      ends.network_turn();
    }
    REQUIRE(requester.replied.size() == 1);
    CHECK(most <= kTurnBytesMax + kQueuedAnswerBytesMax + 2 * kChunkBytes);
  }
}

}  // namespace tcp_counters_test
