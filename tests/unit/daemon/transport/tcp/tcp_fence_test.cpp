// The fence of the TCP transport: after on_fenced() or on_reply() nothing touches a slice any more,
// whatever the other end does then.
#include <doctest/doctest.h>

#include <algorithm>

#include "daemon/transport/tcp/frame_codec.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_fence_test {

using namespace local_world;
using support::TcpEnds;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPage = 4 << 20;
constexpr std::byte kCanary{0xc5};
constexpr std::byte kObject{0x3a};

// Moves the one page of each request.
struct PageServer final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    ++open;
    if (incoming.header.opcode == ipc::Opcode::put) {
      incoming.responder->pull(incoming, 0, sink);
    } else {
      incoming.responder->push(incoming, 0, extent, true);
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    last = result.status;
    const PageReply reply{result.status, result.status == Status::ok ? kPage : 0};
    incoming.responder->reply(incoming, {&reply, 1});
    --open;
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { --open; }
  std::vector<std::byte> extent = std::vector<std::byte>(kPage, kObject);
  std::vector<std::byte> sink = std::vector<std::byte>(kPage);
  Status last = Status::ok;
  int open = 0;
};

// One link, one get of one page, and a client that fills the page anew the moment it has the end of
// its request.
struct Scene {
  explicit Scene(SocketIoChoice choice) : ends(choice), memory(kPage) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(server);
    relay = &ends.dial(kRoute);
    ends.turn();
    answers.on_answer = [this] { std::fill_n(memory.region.base, kPage, kCanary); };
  }
  // Stops the sender's bytes when `bytes` of them have gone through.
  void get_half(std::uint64_t bytes) {
    relay->limit_to_left(bytes);
    ask = std::make_unique<Ask>(memory.region, ipc::Opcode::get, 1, kPage);
    REQUIRE(ends.requester.post(kRoute, 1, ask->request) == Status::ok);
    REQUIRE(ends.turn_until([&] { return relay->bytes_to_left() == bytes; }));
    ends.requester.do_work();
    // The receive is half into the page, and goes on where this ends.
    REQUIRE(std::count(memory.region.base, memory.region.base + kPage, kObject) > 1000);
    REQUIRE(memory.region.base[kPage - 1] != kObject);
  }
  std::uint64_t spoiled() const {
    return kPage - static_cast<std::uint64_t>(
                       std::count(memory.region.base, memory.region.base + kPage, kCanary));
  }
  // The requester has what it waits for before it lets go of the page.
  bool is_fenced() {
    return ends.requester_works_until([this] { return !answers.fenced.empty(); });
  }
  // The sender goes on with all it has, and both ends have every turn they want.
  void go_on() {
    relay->open();
    for (int i = 0; i < 300; ++i) ends.turn();
  }

  std::unique_ptr<Ask> ask;  // outlives the ends: they refer to it until it is over
  Answers answers;
  PageServer server;
  TcpEnds ends;
  TestRegion memory;
  support::TcpRelay* relay = nullptr;
};

TEST_CASE("tcp fence: a sender that goes on after a reset changes no canary") {
  for (const SocketIoChoice choice : support::io_choices()) {
    for (const std::uint64_t bytes : {70'000u, 300'001u, 1'000'000u, 3'900'000u}) {
      CAPTURE(static_cast<int>(choice));
      CAPTURE(bytes);
      Scene scene(choice);
      scene.get_half(bytes);
      scene.ends.requester.reset(kRoute, 1);
      REQUIRE(scene.is_fenced());
      REQUIRE(scene.answers.fenced == std::vector<RequestToken>{1});
      CHECK(scene.spoiled() == 0);
      scene.go_on();
      CHECK(scene.spoiled() == 0);
      CHECK(scene.answers.replied.empty());
      CHECK(scene.ends.turn_until([&] { return scene.server.open == 0; }));
    }
  }
}

TEST_CASE("tcp fence: bytes that wait in the socket when it is reset change no canary") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.get_half(500'000);
    // On their way into the page, with nobody having looked at them yet.
    scene.relay->limit_to_left(60'000);
    scene.relay->pump_to_left();
    REQUIRE(scene.relay->bytes_to_left() == 560'000);
    scene.ends.requester.reset(kRoute, 1);
    REQUIRE(scene.is_fenced());
    REQUIRE(scene.answers.fenced.size() == 1);
    CHECK(scene.spoiled() == 0);
    scene.go_on();
    CHECK(scene.spoiled() == 0);
  }
}

TEST_CASE("tcp fence: a peer that was silent too long changes no canary when it comes back") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.get_half(1'000'000);
    for (int i = 0; i < 100 && scene.answers.fenced.empty(); ++i) {
      scene.ends.requester.do_work();
      scene.ends.clock.advance_ns(20 * base::kNsPerMs);
    }
    REQUIRE(scene.answers.fenced.size() == 1);
    CHECK(scene.spoiled() == 0);
    scene.go_on();
    CHECK(scene.spoiled() == 0);
  }
}

TEST_CASE("tcp fence: a cancel is answered when the sender goes on, and not before") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.get_half(1'000'000);
    scene.ends.requester.cancel(kRoute, 1);
    for (int i = 0; i < 100; ++i) scene.ends.turn();
    // What is on its way could still arrive: the operation is not over.
    CHECK(scene.answers.replied.empty());
    CHECK(scene.answers.fenced.empty());
    scene.relay->open();
    REQUIRE(scene.ends.turn_until([&] { return !scene.answers.replied.empty(); }));
    CHECK(scene.spoiled() == 0);
    scene.go_on();
    CHECK(scene.spoiled() == 0);
  }
}

TEST_CASE("tcp fence: a get that is abandoned ends alone, and its link goes on") {
  int at_once = 0;
  int behind_a_frame = 0;
  for (const SocketIoChoice choice : support::io_choices()) {
    constexpr std::uint64_t kFrame = sizeof(wire::FrameHeader) + kChunkBytes;
    // Behind whole frames of the page, and in the middle of one.
    for (const std::uint64_t bytes : {kFrame, 3 * kFrame, 3 * kFrame + 70'000, 30 * kFrame + 20}) {
      CAPTURE(static_cast<int>(choice));
      CAPTURE(bytes);
      Scene scene(choice);
      scene.get_half(bytes);
      scene.ends.requester.cancel(kRoute, 1);
      scene.ends.requester.abandon(kRoute, 1);
      for (int i = 0; i < 100; ++i) scene.ends.requester.do_work();
      ++(scene.answers.fenced.empty() ? behind_a_frame : at_once);
      scene.relay->open();
      REQUIRE(scene.ends.turn_until([&] { return !scene.answers.fenced.empty(); }));
      CHECK(scene.spoiled() == 0);
      scene.go_on();
      CHECK(scene.spoiled() == 0);
      CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
      CHECK(scene.answers.replied.empty());
      CHECK(scene.ends.turn_until([&] { return scene.server.open == 0; }));
      // The same connection serves the others.
      scene.answers.on_answer = nullptr;
      const Ask other(scene.memory.region, ipc::Opcode::get, 1, kPage);
      REQUIRE(scene.ends.requester.post(kRoute, 2, other.request) == Status::ok);
      REQUIRE(scene.ends.turn_until([&] { return !scene.answers.replied.empty(); }));
      CHECK(scene.answers.last[0].status == Status::ok);
      CHECK(std::count(scene.memory.region.base, scene.memory.region.base + kPage, kObject) ==
            static_cast<std::ptrdiff_t>(kPage));
    }
  }
  CHECK(at_once > 0);
  CHECK(behind_a_frame > 0);
}

TEST_CASE("tcp fence: gets that are abandoned again and again cost no credit and no link") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    const Ask ask(scene.memory.region, ipc::Opcode::get, 1, kPage);
    for (RequestToken token = 1; token <= 100; ++token) {
      Status posted = Status::no_space;
      for (int i = 0; i < 5000 && posted == Status::no_space; ++i) {
        posted = scene.ends.requester.post(kRoute, token, ask.request);
        scene.ends.turn();
      }
      REQUIRE(posted == Status::ok);
      for (RequestToken i = 0; i < token % 7; ++i) scene.ends.turn();
      scene.ends.requester.cancel(kRoute, token);
      scene.ends.requester.abandon(kRoute, token);
      scene.ends.requester.abandon(kRoute, token);
      const std::size_t ended = token;
      REQUIRE(scene.ends.turn_until(
          [&] { return scene.answers.fenced.size() + scene.answers.replied.size() == ended; }));
    }
    CHECK(scene.answers.fenced.size() > 50);
    scene.go_on();
    CHECK(scene.spoiled() == 0);
    CHECK(scene.ends.turn_until([&] { return scene.server.open == 0; }));
  }
}

TEST_CASE("tcp fence: a put is not abandoned, for what was sent may still become an object") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    const Ask put(scene.memory.region, ipc::Opcode::put, 1, kPage);
    scene.relay->limit_to_right(50'000);
    REQUIRE(scene.ends.requester.post(kRoute, 1, put.request) == Status::ok);
    for (int i = 0; i < 20; ++i) scene.ends.turn();
    scene.ends.requester.cancel(kRoute, 1);
    scene.ends.requester.abandon(kRoute, 1);
    for (int i = 0; i < 100; ++i) scene.ends.turn();
    CHECK(scene.answers.fenced.empty());
    scene.relay->open();
    REQUIRE(scene.ends.turn_until([&] { return !scene.answers.replied.empty(); }));
    CHECK(scene.answers.last[0].status == scene.server.last);
  }
}

TEST_CASE("tcp fence: a put that was fenced is sent no further") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    std::fill_n(scene.memory.region.base, kPage, kObject);
    scene.ask = std::make_unique<Ask>(scene.memory.region, ipc::Opcode::put, 1, kPage);
    REQUIRE(scene.ends.requester.post(kRoute, 1, scene.ask->request) == Status::ok);
    REQUIRE(scene.ends.turn_until([&] { return scene.relay->bytes_to_right() > 50'000; }));
    scene.ends.requester.reset(kRoute, 1);
    REQUIRE(scene.is_fenced());
    REQUIRE(scene.answers.fenced.size() == 1);  // and the client has filled its page anew
    scene.go_on();
    CHECK(scene.ends.turn_until([&] { return scene.server.open == 0; }));
    CHECK(scene.server.last == Status::cancelled);  // nothing to be published
    CHECK(std::count(scene.server.sink.begin(), scene.server.sink.end(), kCanary) == 0);
  }
}

TEST_CASE("tcp fence: an end that is destroyed in the middle of a page lets go of it") {
  for (const SocketIoChoice choice : support::io_choices()) {
    TestRegion memory(kPage);
    Answers answers;
    Ask ask(memory.region, ipc::Opcode::get, 1, kPage);
    support::TcpRelay relay;
    base::ManualClock clock;
    RegionMover mover;
    memory::FaultGuard::install();
    auto io = make_socket_io(choice, nullptr).value();
    {
      OwnRoster links(1);
      TcpLinkMailbox mail(4);
      TcpRequester requester(TcpEnds::small_requester(), clock, *io, mover, links, mail);
      requester.connect(answers, nullptr);
      requester.add_link({relay.take_left(), kRoute.peer, kRoute.shard, 1});
      REQUIRE(requester.post(kRoute, 1, ask.request) == Status::ok);
      requester.do_work();
      // A page begins, and its first bytes come.
      wire::FrameHeader header = frame_header(wire::FrameKind::data, 0, 1);
      header.body_bytes = wire::kDataBytesMax;
      std::vector<std::byte> bytes(sizeof header + 100'000, kObject);
      FrameSeal plain;
      seal_header(header, plain, bytes.data());
      const support::UniqueFd sender = relay.take_right();
      REQUIRE(::send(sender.get(), bytes.data(), bytes.size(), 0) ==
              static_cast<ssize_t>(bytes.size()));
      for (int i = 0; i < 1000 && memory.region.base[99'999] != kObject; ++i) {
        relay.pump();
        requester.do_work();
      }
      REQUIRE(memory.region.base[99'999] == kObject);
      // More of them lie in the socket while the receive for them is under way.
      REQUIRE(::send(sender.get(), bytes.data(), 50'000, 0) == 50'000);
      relay.pump();
    }
    std::fill_n(memory.region.base, kPage, kCanary);
    for (int i = 0; i < 10; ++i) io->poll();
    CHECK(std::count(memory.region.base, memory.region.base + kPage, kCanary) ==
          static_cast<std::ptrdiff_t>(kPage));
    CHECK(answers.fenced.empty());
  }
}

}  // namespace tcp_fence_test
