// Sends without copies: whose memory stays the kernel's after they have ended. On loopback the
// kernel copies in the end, but only when it hands the bytes to the receiver: what waits in a
// socket whose peer does not read is held.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/transport/tcp/tx_queue.h"
#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_uncopied_test {

using namespace local_world;
using support::TcpEnds;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPageBytes = 1 << 20;
constexpr std::uint64_t kLongPageBytes = 40 << 20;  // more than the sockets of a link hold

struct Freed final : PayloadOwner {
  void on_payload_sent(std::uint32_t tag) noexcept override { tags.push_back(tag); }
  std::vector<std::uint32_t> tags;
};

struct QueueScene {
  // Queues a payload and sends all of it.
  void send(std::uint32_t tag, bool holds) {
    queue.add_payload(bytes.data(), 1000, tag);
    CHECK(queue.prepare(socket) == 1000);
    if (holds) numbers.push_back(queue.hold());
    queue.take_sent(1000, freed);
    CHECK(queue.empty());
  }
  void release(std::size_t hold) { queue.release(1u << numbers[hold], freed); }

  TxQueue queue;
  IoSocket socket;
  Freed freed;
  std::vector<std::byte> bytes = std::vector<std::byte>(1000);
  std::vector<std::uint32_t> numbers;
};

TEST_CASE("tcp uncopied: memory comes back in the order of the queue") {
  QueueScene scene;
  using Tags = std::vector<std::uint32_t>;
  scene.send(1, false);
  CHECK(scene.freed.tags == Tags{1});
  scene.send(2, true);
  scene.send(3, false);
  scene.send(4, true);
  scene.send(5, true);
  CHECK(scene.freed.tags == Tags{1});
  scene.release(1);
  CHECK(scene.freed.tags == Tags{1});
  scene.release(0);
  CHECK(scene.freed.tags == Tags{1, 2, 3, 4});
  scene.release(2);
  CHECK(scene.freed.tags == Tags{1, 2, 3, 4, 5});
  CHECK(scene.queue.has_room(TxQueue::kFrameBytesMax));
}

TEST_CASE("tcp uncopied: a payload sent in two parts is held by both, and frames behind it wait") {
  QueueScene scene;
  scene.queue.add_payload(scene.bytes.data(), 1000, 7);
  scene.numbers.push_back(scene.queue.hold());
  scene.queue.take_sent(400, scene.freed);
  scene.numbers.push_back(scene.queue.hold());
  scene.queue.take_sent(600, scene.freed);
  // A frame is not joined to one whose bytes the kernel holds.
  std::byte* const first = scene.queue.reserve(100);
  REQUIRE(first != nullptr);
  scene.queue.commit(100);
  CHECK(scene.queue.prepare(scene.socket) == 0);
  scene.queue.take_sent(100, scene.freed);
  std::byte* const second = scene.queue.reserve(100);
  REQUIRE(second == first + 100);
  scene.queue.commit(100);
  CHECK(scene.queue.prepare(scene.socket) == 0);
  REQUIRE(scene.socket.send_count == 1);
  CHECK(scene.socket.send_parts[0].iov_base == second);
  CHECK(scene.socket.send_parts[0].iov_len == 100);
  scene.release(0);
  CHECK(scene.freed.tags.empty());
  scene.release(1);
  CHECK(scene.freed.tags.size() == 1);
}

TEST_CASE("tcp uncopied: no more are held than there are numbers") {
  QueueScene scene;
  for (std::uint32_t i = 0; i < kSendsHeldMax; ++i) {
    REQUIRE(scene.queue.can_hold());
    scene.send(i, true);
  }
  CHECK_FALSE(scene.queue.can_hold());
  scene.release(0);
  CHECK(scene.queue.can_hold());
}

// Pushes a page of its own to everybody who asks.
struct PushingServer final : ResponderEvents {
  explicit PushingServer(std::uint64_t page_bytes) : extent(page_bytes, std::byte{0x4d}) {}
  void on_request(Incoming& incoming) noexcept override {
    ++open;
    incoming.responder->push(incoming, 0, extent, false);
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    ++moved;
    const PageReply reply{result.status, extent.size()};
    incoming.responder->reply(incoming, {&reply, 1});
    --open;
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { --open; }
  std::vector<std::byte> extent;
  int open = 0;
  int moved = 0;
};

struct Scene {
  Scene(SocketIoChoice choice, std::uint64_t bytes)
      : page_bytes(bytes), memory(bytes), server(bytes), ends(choice) {
    ends.requester.connect(requester, nullptr);
    ends.responder.connect(server);
    ends.dial(kRoute);
    ends.turn();
  }
  void ask(RequestToken token) {
    asked.push_back(std::make_unique<Ask>(memory.region, ipc::Opcode::get, 1, page_bytes));
    REQUIRE(ends.requester.post(kRoute, token, asked.back()->request) == Status::ok);
  }
  // Whether the kernel can send without copies; else there is nothing to see here.
  bool has_uncopied() const {
    const bool has = ends.responder_io->uncopied_sends() != UncopiedSends::never;
    if (!has) MESSAGE("not tested: this kernel has no sends without copies");
    return has;
  }

  const std::uint64_t page_bytes;
  std::vector<std::unique_ptr<Ask>> asked;  // outlive the ends
  TestRegion memory;
  Answers requester;
  PushingServer server;
  TcpEnds ends;
};

bool has_uring() {
  return support::io_choices().size() > 1;
}

TEST_CASE("tcp uncopied: where the kernel copies after all, it is asked once for each connection") {
  if (!has_uring()) return;
  Scene scene(SocketIoChoice::uring, kPageBytes);
  if (!scene.has_uncopied()) return;
  for (RequestToken token = 1; token <= 3; ++token) {
    scene.ask(token);
    REQUIRE(scene.ends.turn_until([&] { return scene.requester.replied.size() == token; }));
    CHECK(std::count(scene.memory.region.base, scene.memory.region.base + kPageBytes,
                     std::byte{0x4d}) == kPageBytes);
  }
  CHECK(scene.ends.counters.value("serving.uncopied_sends") == 1);
  CHECK(scene.ends.counters.value("serving.copied_after_all") == 1);
}

TEST_CASE("tcp uncopied: an extent is the server's again when the kernel has let go of it") {
  if (!has_uring()) return;
  Scene scene(SocketIoChoice::uring_uncopied, kLongPageBytes);
  if (!scene.has_uncopied()) return;
  scene.ask(1);
  REQUIRE(scene.ends.turn_until([&] { return scene.server.open == 1; }));
  // The network moves nothing any more.
  for (int i = 0; i < 500; ++i) scene.ends.responder.do_work();
  CHECK(scene.server.moved == 0);
  CHECK(scene.ends.counters.value("serving.uncopied_sends") > 0);
  SUBCASE("when the asker reads on") {
    REQUIRE(scene.ends.turn_until([&] { return scene.requester.replied.size() == 1; }));
    REQUIRE(scene.ends.turn_until([&] { return scene.server.open == 0; }));
    CHECK(scene.ends.counters.value("serving.uncopied_sends") > 10);
  }
  SUBCASE("when the link ends, though the asker never reads what is on its way") {
    scene.ends.responder.drop_all();
    CHECK(scene.ends.responder_works_until([&] { return scene.server.open == 0; }));
  }
}

}  // namespace tcp_uncopied_test
