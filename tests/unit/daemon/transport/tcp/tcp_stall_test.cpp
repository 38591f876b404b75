// A requester that lives but lets moves wait: its link ends. One that is slow keeps it.
#include <doctest/doctest.h>

#include <sys/socket.h>

#include "daemon/base/hash.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_stall_test {

using namespace local_world;
using wire::FrameHeader;
using wire::FrameKind;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kPage = 16 << 20;
constexpr base::TimeNs kStepNs = 50 * base::kNsPerMs;

Bytes frame(FrameHeader header, const Bytes& body = {}) {
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  if (static_cast<FrameKind>(header.kind) == FrameKind::request) {
    header.digest = base::payload_digest(body.data(), body.size());
  }
  Bytes bytes(sizeof header);
  FrameSeal plain;
  seal_header(header, plain, bytes.data());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

// Moves every page, and answers when it has moved.
struct MovingServer final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    const auto all = std::span(extent).first(incoming.pages[0].slice.length);
    if (incoming.header.opcode == ipc::Opcode::put) {
      incoming.responder->pull(incoming, 0, all);
    } else {
      incoming.responder->push(incoming, 0, all, false);
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    ++moved;
    if (result.status != Status::ok) return;
    const std::vector<PageReply> replies(incoming.pages.size());
    incoming.responder->reply(incoming, replies);
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { ++aborted; }
  Bytes extent = Bytes(kPage);
  int moved = 0;
  int aborted = 0;
};

// A responder, and a requester that the test plays.
struct Scene {
  explicit Scene(SocketIoChoice choice) : ends(choice) {
    ends.responder.connect(server);
    support::UniqueFd ours;
    support::tcp_pair(ours, peer);
    ends.responder.add_link({std::move(ours), {77}, 0, 1});
    say_roster();
  }
  void say(const Bytes& bytes) {
    REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  void say_roster() {
    const LinkRoster roster{7, 2, 1, 1, {1}};
    Bytes body(sizeof(wire::RosterBody));
    encode_roster(roster, body.data());
    FrameHeader header = frame_header(FrameKind::roster, 0, 0);
    header.digest = base::payload_digest(body.data(), body.size());
    say(frame(header, body));
    turn();
  }
  void ask(ipc::Opcode opcode, base::TimeNs remaining_ns = wire::kNoDeadline) {
    const memory::Region none;
    const Ask one(none, opcode, 1, kPage);
    const std::vector<std::uint8_t> is_inline(1);
    Bytes body(request_body_bytes(one.request.header, one.list));
    encode_request(one.request.header, remaining_ns, one.list, is_inline, body.data());
    say(frame(frame_header(FrameKind::request, 0, 1), body));
    turn();
  }
  void send_some(std::uint64_t bytes) {
    FrameHeader header = frame_header(FrameKind::data, 0, 1);
    header.offset = sent;
    sent += bytes;
    say(frame(header, Bytes(bytes)));
  }
  std::uint64_t read_some(std::size_t bytes) {
    Bytes into(bytes);
    const ssize_t got = ::recv(peer.get(), into.data(), into.size(), MSG_DONTWAIT);
    return got < 0 ? 0 : static_cast<std::uint64_t>(got);
  }
  void turn() {
    for (int i = 0; i < 20; ++i) ends.responder.do_work();
  }
  void ping() { say(frame(frame_header(FrameKind::ping, 0, 0))); }
  // Lets time pass until the link is lost, at most so much; how much it was.
  template <typename Peer>
  base::TimeNs pass(base::TimeNs most_ns, Peer&& each_step) {
    const base::TimeNs begin_ns = ends.clock.now_ns();
    while (!is_lost() && ends.clock.now_ns() - begin_ns < most_ns) {
      ends.clock.advance_ns(kStepNs);
      each_step();
      turn();
    }
    return ends.clock.now_ns() - begin_ns;
  }
  bool is_lost() {
    LinkLost lost;
    if (ends.responder_mail.control_take_lost(lost)) {
      has_lost = true;
      cause = lost.cause;
    }
    return has_lost;
  }
  MovingServer server;
  support::TcpEnds ends;
  support::UniqueFd peer;
  std::uint64_t sent = 0;
  bool has_lost = false;
  LinkLoss cause = LinkLoss::closed;
};

constexpr base::TimeNs kBoundNs = base::kNsPerSecond;  // peer_silence_ns

TEST_CASE("tcp stall: a put whose payload does not come ends its link, however much is pinged") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ask(ipc::Opcode::put);
    const base::TimeNs took_ns = scene.pass(10 * kBoundNs, [&] { scene.ping(); });
    REQUIRE(scene.has_lost);
    CHECK(scene.cause == LinkLoss::stalled);
    CHECK(took_ns >= kBoundNs);
    CHECK(took_ns <= kBoundNs + 2 * kStepNs);
    CHECK(scene.server.moved == 1);
    CHECK(scene.server.aborted == 1);
  }
}

TEST_CASE("tcp stall: a get whose payload is not read ends its link, however much is pinged") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ask(ipc::Opcode::get);
    const base::TimeNs took_ns = scene.pass(10 * kBoundNs, [&] { scene.ping(); });
    REQUIRE(scene.has_lost);
    CHECK(scene.cause == LinkLoss::stalled);
    CHECK(took_ns <= 2 * kBoundNs + 2 * kStepNs);
    CHECK(scene.server.moved == 1);
  }
}

TEST_CASE("tcp stall: an asker that sends slowly keeps its link") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ask(ipc::Opcode::put);
    int steps = 0;
    (void)scene.pass(10 * kBoundNs, [&] {
      scene.ping();
      if (++steps % 16 == 0) scene.send_some(10'000);
    });
    CHECK_FALSE(scene.has_lost);
    CHECK(scene.server.moved == 0);
  }
}

TEST_CASE("tcp stall: an asker that reads slowly, less than the kernel holds, keeps its link") {
  for (const SocketIoChoice choice : support::io_choices()) {
    CAPTURE(static_cast<int>(choice));
    Scene scene(choice);
    scene.ask(ipc::Opcode::get);
    int steps = 0;
    (void)scene.pass(6 * kBoundNs, [&] {
      scene.ping();
      if (++steps % 8 == 0) CHECK(scene.read_some(256 * 1024) > 0);
    });
    CHECK_FALSE(scene.has_lost);
    CHECK(scene.server.moved == 0);
  }
}

TEST_CASE("tcp stall: moves long after their request's deadline end its link") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ask(ipc::Opcode::put, 3 * kBoundNs);
    const base::TimeNs took_ns = scene.pass(10 * kBoundNs, [&] { scene.send_some(1); });
    REQUIRE(scene.has_lost);
    CHECK(scene.cause == LinkLoss::stalled);
    CHECK(took_ns >= 4 * kBoundNs);
    CHECK(took_ns <= 4 * kBoundNs + kBoundNs / 3 + 2 * kStepNs);
  }
}

}  // namespace tcp_stall_test
