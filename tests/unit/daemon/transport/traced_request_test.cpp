// The trace that a request is part of comes with it over a network, to ends that know one. Inside a
// daemon it stays away: the operation's own span says it all.
#include <doctest/doctest.h>

#include "tests/support/rdma_ends.h"
#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace traced_request_test {

using namespace local_world;
using support::RdmaEnds;
using support::TcpEnds;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPage = 1000;
constexpr base::TraceName kTrace{0x0af7651916cd43dd, 0x8448eb211c80319c};

struct PushingServer final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    headers.push_back(incoming.header);
    incoming.responder->push(incoming, 0, extent, false);
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    const PageReply reply{result.status, extent.size()};
    incoming.responder->reply(incoming, {&reply, 1});
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override {}
  std::vector<std::byte> extent = std::vector<std::byte>(kPage);
  std::vector<RequestHeader> headers;
};

// What arrives of a get that has the trace.
template <typename Ends>
RequestHeader arrived(Ends& ends, const TestRegion& region) {
  Answers answers;
  PushingServer server;
  ends.requester.connect(answers, nullptr);
  ends.responder.connect(server);
  ends.dial(kRoute);
  ends.turn();
  Ask ask(region.region, ipc::Opcode::get, 1, kPage);
  ask.request.header.trace_id = 17;
  ask.request.header.trace = kTrace;
  REQUIRE(ends.requester.post(kRoute, 5, ask.request) == Status::ok);
  REQUIRE(ends.turn_until([&] { return !answers.replied.empty(); }));
  const RequestHeader header = server.headers.at(0);
  CHECK(answers.last[0].status == Status::ok);
  CHECK(header.trace_id == 17);
  return header;
}

TEST_CASE("traced request: over TCP its trace arrives, where the other end knows one") {
  for (const bool takes_traces : {false, true}) {
    CAPTURE(takes_traces);
    const TestRegion region(kPage);
    TcpEnds ends(SocketIoChoice::epoll);
    ends.takes_traces = takes_traces;
    const RequestHeader header = arrived(ends, region);
    CHECK(header.trace.high == (takes_traces ? kTrace.high : 0));
    CHECK(header.trace.low == (takes_traces ? kTrace.low : 0));
  }
}

TEST_CASE("traced request: over RDMA its trace arrives, where the other end knows one") {
  for (const bool takes_traces : {false, true}) {
    CAPTURE(takes_traces);
    TestRegion region(kPage);
    RdmaEnds ends;
    ends.keys.add(region.region);
    ends.takes_traces = takes_traces;
    const RequestHeader header = arrived(ends, region);
    CHECK(header.trace.high == (takes_traces ? kTrace.high : 0));
    CHECK(header.trace.low == (takes_traces ? kTrace.low : 0));
  }
}

TEST_CASE("traced request: inside a daemon no trace arrives") {
  const TestRegion region(kPage);
  base::ManualClock clock;
  RegionMover mover;
  LocalMesh mesh(LocalMeshConfig{}, clock, {{nullptr, &mover}});
  PushingServer server;
  Answers answers;
  mesh.requester(0).connect(answers, nullptr);
  mesh.responder(0).connect(server);
  Ask ask(region.region, ipc::Opcode::get, 1, kPage);
  ask.request.header.trace_id = 17;
  ask.request.header.trace = kTrace;
  REQUIRE(mesh.requester(0).post({base::kSelf, 0}, 5, ask.request) == Status::ok);
  mesh.responder(0).do_work();
  REQUIRE(server.headers.size() == 1);
  CHECK(server.headers[0].trace_id == 17);
  CHECK_FALSE(server.headers[0].trace.is_set());
  mesh.requester(0).do_work();
  CHECK(answers.replied.size() == 1);
}

}  // namespace traced_request_test
