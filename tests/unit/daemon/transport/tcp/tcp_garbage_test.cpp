// What no peer of ours sends ends its connection, and nothing else; a connection that ends in the
// middle of a frame leaves nothing behind.
// Random parts repeat with SIMM_SEED=<seed>.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "daemon/base/hash.h"
#include "daemon/base/random.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "tests/support/tcp_ends.h"
#include "tests/support/tcp_frames.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_garbage_test {

using namespace local_world;
using support::tcp_frame;
using support::tcp_pull;
using support::tcp_reply;
using support::TcpEnds;
using wire::FrameHeader;
using wire::FrameKind;
using Bytes = std::vector<std::byte>;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPage = 1000;
constexpr std::byte kUntouched{0x11};

Bytes bare(FrameKind kind, std::uint32_t slot = 0, std::uint32_t use = 1) {
  return tcp_frame(frame_header(kind, slot, use));
}
Bytes data(std::uint16_t page, std::uint64_t offset, std::size_t length, bool is_last,
           std::uint32_t use = 1) {
  FrameHeader header = frame_header(FrameKind::data, 0, use);
  header.page = page;
  header.offset = offset;
  header.flags = is_last ? wire::kFlagLast : 0;
  const Bytes body(length, std::byte{0x22});
  if (is_last) header.digest = base::payload_digest(body.data(), body.size());
  return tcp_frame(header, body);
}
Bytes request(ipc::Opcode opcode, std::uint32_t slot = 0, std::uint32_t use = 1) {
  const memory::Region none;
  const Ask ask(none, opcode, 2, kPage);
  const std::vector<std::uint8_t> is_inline(2);
  Bytes body(request_body_bytes(ask.request.header, ask.list));
  encode_request(ask.request.header, wire::kNoDeadline, ask.list, is_inline, body.data());
  return tcp_frame(frame_header(FrameKind::request, slot, use), body);
}
Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
Bytes cut(Bytes bytes, std::size_t length) {
  bytes.resize(length);
  return bytes;
}

// Pulls or pushes every page of a request, and answers it when all have moved.
struct Server final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    ++requests;
    open = incoming.pages.size();
    for (std::uint16_t page = 0; page < incoming.pages.size(); ++page) {
      const std::uint64_t length =
          std::min<std::uint64_t>(incoming.pages[page].slice.length, kPage);
      const auto room = std::span(extents).subspan(page % 2 * kPage, length);
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, page, room);
      } else {
        incoming.responder->push(incoming, page, room, false);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    stored += result.status == Status::ok ? 1 : 0;
    if (--open > 0) return;
    const std::vector<PageReply> replies(incoming.pages.size());
    incoming.responder->reply(incoming, replies);
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { ++aborted; }
  Bytes extents = Bytes(2 * kPage);
  std::size_t open = 0;
  int requests = 0;
  int stored = 0;
  int aborted = 0;
};

// Both ends, each with a peer that the test plays.
struct Scene {
  explicit Scene(SocketIoChoice choice) : ends(choice), memory(4 * kPage) {
    std::fill_n(memory.region.base, 4 * kPage, kUntouched);
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(server);
  }
  // What became of the link on which a responder was sent that.
  LinkLoss serve(const Bytes& bytes, bool hangs_up = false) {
    support::UniqueFd ours;
    support::UniqueFd peer;
    support::tcp_pair(ours, peer);
    ends.responder.add_link({std::move(ours), {77}, 0, ++name});
    return outcome(ends.responder, ends.responder_mail, peer, bytes, hangs_up);
  }
  // The same for a requester that has asked for two pages.
  LinkLoss answer(ipc::Opcode opcode, const Bytes& bytes, bool hangs_up = false) {
    support::UniqueFd ours;
    support::UniqueFd peer;
    support::tcp_pair(ours, peer);
    ends.requester.add_link({std::move(ours), kRoute.peer, kRoute.shard, ++name});
    const std::uint64_t length = opcode == ipc::Opcode::exists ? 0 : kPage;
    asks.push_back(std::make_unique<Ask>(memory.region, opcode, 2, length));
    // No page is inline: the peer of these tests would have to pull it.
    REQUIRE(ends.requester.post(kRoute, name, asks.back()->request) == Status::ok);
    ends.requester.do_work();
    const LinkLoss loss = outcome(ends.requester, ends.requester_mail, peer, bytes, hangs_up);
    if (!hangs_up) REQUIRE(answers.fenced.size() == 1);
    answers.fenced.clear();
    return loss;
  }
  template <typename End>
  LinkLoss outcome(End& end, TcpLinkMailbox& mail, support::UniqueFd& peer, const Bytes& bytes,
                   bool hangs_up) {
    REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    if (hangs_up) ::shutdown(peer.get(), SHUT_WR);
    LinkLost lost;
    for (int i = 0; i < 100'000; ++i) {
      end.do_work();
      if (mail.control_take_lost(lost)) {
        CHECK(lost.link == name);
        return lost.cause;
      }
      if (i > 1000) ::sched_yield();
    }
    FAIL("the link is not lost");
    return LinkLoss::refused;
  }

  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  Server server;
  TcpEnds ends;
  TestRegion memory;
  std::uint64_t name = 0;
};

Bytes noise(base::Random& random, std::size_t length) {
  Bytes bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

std::uint64_t seed() {
  const char* text = std::getenv("SIMM_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

TEST_CASE("tcp garbage: a server hangs up on what is no frame, or not for it, or not now") {
  const Bytes put = request(ipc::Opcode::put);
  FrameHeader unknown = frame_header(static_cast<FrameKind>(99), 0, 1);
  FrameHeader wrong_body = frame_header(FrameKind::request, 0, 1);
  wrong_body.digest = 1;
  FrameHeader failed = frame_header(FrameKind::failed, 0, 1);
  failed.status = static_cast<std::int32_t>(Status::transfer_failed);
  FrameHeader failed_page = failed;
  failed_page.page = 2;
  const Bytes wrongs[] = {
      Bytes(sizeof(FrameHeader)),
      Bytes(100'000, std::byte{0xff}),
      tcp_frame(unknown),
      bare(FrameKind::pong, 0, 0),
      tcp_pull({0}),
      tcp_reply({{Status::ok, 0}}),
      tcp_frame(wrong_body, Bytes(200)),
      request(ipc::Opcode::put, TcpEnds::small_responder().credits),
      put + request(ipc::Opcode::put, 0, 2),                // the slot is taken
      data(0, 0, kPage, true),                              // nothing was asked for
      put + data(0, 0, kPage, true, 2),                     // of another use
      put + data(2, 0, kPage, true),                        // no such page
      put + data(0, 1, kPage - 1, true),                    // a gap
      put + data(0, 0, kPage + 1, true),                    // too long
      put + data(0, 0, kPage - 1, true),                    // too short
      put + data(0, 0, kPage, false),                       // does not end
      put + data(0, 0, 10, false) + data(1, 0, 10, false),  // two at once
      put + data(0, 0, kPage, true) + data(0, 0, kPage, true),
      tcp_frame(failed),
      put + tcp_frame(failed_page),
      put + tcp_frame(failed) + tcp_frame(failed),
  };
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    for (const Bytes& wrong : wrongs) {
      CAPTURE(&wrong - wrongs);
      CHECK(scene.serve(wrong) == LinkLoss::protocol);
    }
    // The end itself is as it was: an honest requester is served.
    scene.ends.dial(kRoute);
    scene.ends.turn();
    const Ask ask(scene.memory.region, ipc::Opcode::put, 2, kPage);
    REQUIRE(scene.ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    CHECK(scene.ends.turn_until([&] { return scene.answers.replied.size() == 1; }));
  }
}

TEST_CASE("tcp garbage: a page whose bytes do not have their digest is corrupt, not stored") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    Bytes spoiled = data(0, 0, kPage, true);
    spoiled.back() ^= std::byte{1};
    const Bytes all = request(ipc::Opcode::put) + spoiled + data(1, 0, kPage, true);
    CHECK(scene.serve(all, true) == LinkLoss::closed);
    CHECK(scene.server.requests == 1);
    CHECK(scene.server.stored == 1);
  }
}

TEST_CASE("tcp garbage: a stream that ends anywhere leaves nothing half done") {
  const Bytes all = request(ipc::Opcode::put) + data(0, 0, kPage, true) + data(1, 0, kPage, true);
  const std::size_t request_bytes = request(ipc::Opcode::put).size();
  for (const SocketIoChoice choice : support::io_choices()) {
    for (std::size_t length = 1; length < all.size(); length += 37) {
      CAPTURE(length);
      Scene scene(choice);
      CHECK(scene.serve(cut(all, length), true) == LinkLoss::closed);
      CHECK(scene.server.requests == (length >= request_bytes ? 1 : 0));
      CHECK(scene.server.stored <= 1);
      CHECK(scene.server.open == 0);  // every move that was begun was reported
    }
  }
}

TEST_CASE("tcp garbage: an asker hangs up on answers to what it did not ask") {
  struct Wrong {
    ipc::Opcode opcode;
    Bytes bytes;
  };
  const std::vector<PageReply> found{{Status::ok, kPage}, {Status::ok, kPage}};
  const Wrong wrongs[] = {
      {ipc::Opcode::get, Bytes(sizeof(FrameHeader))},
      {ipc::Opcode::get, bare(FrameKind::ping, 0, 0)},
      {ipc::Opcode::get, bare(FrameKind::cancel)},
      {ipc::Opcode::get, request(ipc::Opcode::get)},
      {ipc::Opcode::get, tcp_pull({0})},
      {ipc::Opcode::get, tcp_reply({{Status::ok, kPage}})},  // one page too few
      {ipc::Opcode::get, tcp_reply(found)},                  // without their data
      {ipc::Opcode::get, data(0, 0, kPage, true, 2)},        // of another use
      {ipc::Opcode::get, data(2, 0, 10, true)},              // no such page
      {ipc::Opcode::get, data(0, 1, 10, true)},              // a gap
      {ipc::Opcode::get, data(0, 0, kPage + 1, true)},       // beyond the slice
      {ipc::Opcode::get, data(0, 0, 10, false) + data(1, 0, 10, true)},
      {ipc::Opcode::get, data(0, 0, 10, true) + data(0, 10, 10, true)},
      {ipc::Opcode::get, data(0, 0, 10, true) + data(1, 0, kPage, true) + tcp_reply(found)},
      {ipc::Opcode::exists, data(0, 0, 10, true)},
      {ipc::Opcode::exists, tcp_pull({0})},
      {ipc::Opcode::put, tcp_pull({2})},
      {ipc::Opcode::put, tcp_pull({0, 0})},
      {ipc::Opcode::put, data(0, 0, 10, true)},
  };
  for (const SocketIoChoice choice : support::io_choices()) {
    for (const Wrong& wrong : wrongs) {
      CAPTURE(&wrong - wrongs);
      Scene scene(choice);
      CHECK(scene.answer(wrong.opcode, wrong.bytes) == LinkLoss::protocol);
      // Never a byte outside the two slices.
      CHECK(std::count(scene.memory.region.base + 2 * kPage, scene.memory.region.base + 4 * kPage,
                       kUntouched) == static_cast<std::ptrdiff_t>(2 * kPage));
    }
  }
}

TEST_CASE("tcp garbage: noise ends its connection") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='tcp garbage: noise*'");
  base::SeededRandom random(first_seed);
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    for (int i = 0; i < 50; ++i) {
      const Bytes bytes = noise(random, sizeof(FrameHeader) + random.below(20'000));
      CHECK(scene.serve(bytes) == LinkLoss::protocol);
      CHECK(scene.answer(ipc::Opcode::get, bytes) == LinkLoss::protocol);
    }
    CHECK(scene.server.requests == 0);
  }
}

TEST_CASE("tcp garbage: one byte that was changed on the way is never taken for another page's") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='tcp garbage: one byte*'");
  base::SeededRandom random(first_seed);
  const Bytes all = request(ipc::Opcode::put) + data(0, 0, kPage, true) + data(1, 0, kPage, true);
  for (int i = 0; i < 200; ++i) {
    Scene scene(random.one_in(2) ? support::io_choices().back() : SocketIoChoice::epoll);
    Bytes changed = all;
    const std::size_t at = random.below(changed.size());
    changed[at] ^= static_cast<std::byte>(1 + random.below(255));
    CAPTURE(at);
    const LinkLoss loss = scene.serve(changed, true);
    CHECK((loss == LinkLoss::protocol || loss == LinkLoss::closed));
    // Either the frame was refused, or its page was.
    CHECK(scene.server.stored < 2);
    CHECK(scene.server.open == 0);
  }
}

}  // namespace tcp_garbage_test
