// Life signs of the TCP transport: a dead peer costs one detection time, a living one none.
#include <doctest/doctest.h>
#include <sched.h>

#include <chrono>
#include <map>
#include <utility>

#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_life_test {

using namespace local_world;
using support::TcpEnds;

constexpr Route kFirst{base::PeerId{1}, 0};
constexpr Route kSecondShard{base::PeerId{1}, 1};
constexpr Route kOther{base::PeerId{2}, 0};
constexpr base::TimeNs kStepNs = 20 * base::kNsPerMs;

// Keeps what comes until it is told to answer.
struct HoldingServer final : ResponderEvents {
  std::vector<Incoming*> held;
  std::vector<std::byte> extent = std::vector<std::byte>(1 << 20);
  int aborted = 0;
  int moved = 0;
  bool pulls = false;
  void on_request(Incoming& incoming) noexcept override {
    held.push_back(&incoming);
    const std::uint64_t length = incoming.pages[0].slice.length;
    if (pulls) incoming.responder->pull(incoming, 0, std::span(extent).first(length));
  }
  void on_moved(Incoming&, std::uint16_t, MoveResult) noexcept override { ++moved; }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming& incoming) noexcept override {
    ++aborted;
    std::erase(held, &incoming);
  }
  void answer() {
    for (Incoming* incoming : std::exchange(held, {})) {
      const std::vector<PageReply> replies(incoming->pages.size());
      incoming->responder->reply(*incoming, replies);
    }
  }
};

struct Scene {
  explicit Scene(SocketIoChoice choice) : ends(choice), memory(4 << 20) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(server);
  }
  Status post(Route route, RequestToken token, ipc::Opcode opcode = ipc::Opcode::exists,
              std::uint64_t length = 0) {
    asks.push_back(std::make_unique<Ask>(memory.region, opcode, 1, length));
    return ends.requester.post(route, token, asks.back()->request);
  }
  std::map<std::uint64_t, LinkLoss> lost(TcpLinkMailbox& mail) {
    std::map<std::uint64_t, LinkLoss> all;
    LinkLost one;
    while (mail.control_take_lost(one)) all[one.link] = one.cause;
    return all;
  }
  // Declared before the ends: a request refers to them until it is over.
  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  HoldingServer server;
  TcpEnds ends;
  TestRegion memory;
};

TEST_CASE("tcp life: a peer that answers pings but no cancel does not keep credits") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ends.dial(kFirst);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1) == Status::ok);
    REQUIRE(scene.ends.turn_until([&] { return scene.server.held.size() == 1; }));
    scene.ends.requester.cancel(kFirst, 1);
    scene.ends.requester.abandon(kFirst, 1);
    REQUIRE(scene.ends.turn_until([&] { return scene.answers.fenced.size() == 1; }));
    const base::TimeNs detection_ns = TcpEnds::small_requester().peer_detection_ns;
    const base::TimeNs began_ns = scene.ends.clock.now_ns();
    std::map<std::uint64_t, LinkLoss> lost;
    while (lost.empty() && scene.ends.clock.now_ns() < began_ns + 2 * detection_ns) {
      scene.ends.clock.advance_ns(kStepNs);
      for (int i = 0; i < 20; ++i) scene.ends.turn();
      lost = scene.lost(scene.ends.requester_mail);
    }
    REQUIRE(lost.size() == 1);
    CHECK(scene.ends.clock.now_ns() >= began_ns + detection_ns);
    CHECK(scene.answers.fenced.size() == 1);  // nobody hears of it twice
  }
}

TEST_CASE("tcp life: a silent peer is dead, with all its links, and then it is refused at once") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ends.dial(kFirst);
    scene.ends.dial(kSecondShard);
    scene.ends.dial(kOther);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1) == Status::ok);
    REQUIRE(scene.post(kSecondShard, 2) == Status::ok);
    // The peers are stopped: nobody gives the responder a turn.
    base::TimeNs waited_ns = 0;
    while (scene.answers.fenced.empty() && waited_ns < base::kNsPerSecond) {
      scene.ends.requester.do_work();
      scene.ends.network_turn();
      scene.ends.clock.advance_ns(kStepNs);
      waited_ns += kStepNs;
    }
    CHECK(waited_ns >= 300 * base::kNsPerMs);
    CHECK(waited_ns <= 300 * base::kNsPerMs + 3 * kStepNs);
    scene.ends.requester.do_work();
    CHECK(scene.answers.fenced == std::vector<RequestToken>{1, 2});
    const auto lost = scene.lost(scene.ends.requester_mail);
    REQUIRE(lost.size() == 2);
    CHECK(lost.at(1) == LinkLoss::silent);
    CHECK(lost.at(2) == LinkLoss::silent);
    // The circuit is open: no request waits for a dead peer.
    CHECK(scene.post(kFirst, 3) == Status::unreachable);
    CHECK(scene.post(kSecondShard, 4) == Status::unreachable);
    // Nobody asked anything of the other one: its silence says nothing.
    CHECK(scene.post(kOther, 5) == Status::ok);
    // A new link closes it.
    scene.ends.dial(kFirst);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 6) == Status::ok);
    CHECK(scene.ends.turn_until([&] {
      scene.server.answer();
      return scene.answers.replied.size() == 2;
    }));
  }
}

// The path takes 256 KiB in each step of 20 ms, and answers are far behind that.
TEST_CASE("tcp life: a peer whose kernel goes on taking payload lives, for a bounded time") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.server.pulls = true;
    support::TcpRelay& relay = scene.ends.dial(kFirst);
    scene.ends.turn();
    const auto post_put = [&](RequestToken token) {
      return scene.post(kFirst, token, ipc::Opcode::put, 1 << 20) == Status::ok;
    };
    for (RequestToken token = 1; token <= 8; ++token) REQUIRE(post_put(token));
    REQUIRE(scene.ends.turn_until([&] { return scene.server.held.size() == 8; }));
    for (int i = 0; i < 3; ++i) {
      scene.ends.responder.do_work();
      relay.pump_to_left();
    }
    relay.limit_to_left(0);
    relay.limit_to_right(0);
    base::TimeNs taking_ns = 0;
    for (std::size_t taken = 0; taken < (6u << 20); taken += 256 << 10) {
      scene.ends.requester.do_work();
      relay.take_slowly_from_left(256 << 10);
      scene.ends.clock.advance_ns(kStepNs);
      taking_ns += kStepNs;
    }
    CHECK(taking_ns > 400 * base::kNsPerMs);
    CHECK(scene.answers.fenced.empty());
    // Nothing more is taken: only pings would be. On a busy machine the kernel takes a while for
    // what it has room for, and that is progress, too.
    std::uint64_t arrived = 0;
    for (auto since = std::chrono::steady_clock::now();
         std::chrono::steady_clock::now() < since + std::chrono::milliseconds(200);) {
      scene.ends.requester.do_work();
      const std::uint64_t now = relay.arrived_from_left();
      if (std::exchange(arrived, now) != now) {
        since = std::chrono::steady_clock::now();
      }
      ::sched_yield();
    }
    base::TimeNs waited_ns = 0;
    while (scene.answers.fenced.empty() && waited_ns < 10 * base::kNsPerSecond) {
      scene.ends.requester.do_work();
      scene.ends.clock.advance_ns(kStepNs);
      waited_ns += kStepNs;
    }
    CHECK(waited_ns <= 500 * base::kNsPerMs);
    CHECK(scene.lost(scene.ends.requester_mail).at(1) == LinkLoss::silent);
  }
}

TEST_CASE("tcp life: one silent link does not make its peer dead, and ends alone") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    support::TcpRelay& swallowing = scene.ends.dial(kFirst);
    scene.ends.dial(kSecondShard);  // nothing is asked over this one
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1) == Status::ok);
    swallowing.limit_to_left(0);
    base::TimeNs waited_ns = 0;
    while (scene.answers.fenced.empty() && waited_ns < 5 * base::kNsPerSecond) {
      scene.ends.turn();
      scene.ends.clock.advance_ns(kStepNs);
      waited_ns += kStepNs;
    }
    CHECK(waited_ns >= 900 * base::kNsPerMs);
    CHECK(waited_ns <= 900 * base::kNsPerMs + 3 * kStepNs);
    CHECK(scene.lost(scene.ends.requester_mail) ==
          std::map<std::uint64_t, LinkLoss>{{1, LinkLoss::silent}});
    CHECK(scene.post(kSecondShard, 2) == Status::ok);
  }
}

TEST_CASE("tcp life: a peer that works for long and answers pings lives") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ends.dial(kFirst);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1) == Status::ok);
    for (int i = 0; i < 200; ++i) {  // four seconds
      scene.ends.turn();
      scene.ends.clock.advance_ns(kStepNs);
    }
    CHECK(scene.answers.fenced.empty());
    CHECK(scene.server.aborted == 0);
    CHECK(scene.server.held.size() == 1);
    scene.server.answer();
    CHECK(scene.ends.turn_until([&] { return scene.answers.replied.size() == 1; }));
  }
}

TEST_CASE("tcp life: who was stopped itself does not take its own silence for the peer's") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ends.dial(kFirst);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1) == Status::ok);
    scene.ends.turn();
    scene.ends.clock.advance_ns(5 * base::kNsPerSecond);
    for (int i = 0; i < 3; ++i) scene.ends.turn();
    CHECK(scene.answers.fenced.empty());
    CHECK(scene.server.aborted == 0);
    scene.server.answer();
    CHECK(scene.ends.turn_until([&] { return scene.answers.replied.size() == 1; }));
  }
}

// An agent with nothing else to do sleeps exactly as long as its parts allow.
TEST_CASE("tcp life: an agent that sleeps between its turns sees a dead peer in time, too") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.ends.dial(kFirst);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1) == Status::ok);
    const base::TimeNs begin_ns = scene.ends.clock.now_ns();
    for (int i = 0; i < 10 && scene.answers.fenced.empty(); ++i) {
      scene.ends.requester.do_work();
      scene.ends.network_turn();
      const base::TimeNs next_ns = scene.ends.requester.next_deadline_ns();
      if (next_ns != base::kNoDeadline) scene.ends.clock.set_ns(next_ns + base::kNsPerMs);
    }
    CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
    CHECK(scene.ends.clock.now_ns() - begin_ns <= 320 * base::kNsPerMs);
  }
}

TEST_CASE("tcp life: a server that sleeps between its turns sees a dead asker in time, too") {
  Scene scene(SocketIoChoice::epoll);
  scene.ends.dial(kFirst);
  scene.ends.turn();
  REQUIRE(scene.post(kFirst, 1) == Status::ok);
  REQUIRE(scene.ends.turn_until([&] { return scene.server.held.size() == 1; }));
  const base::TimeNs begin_ns = scene.ends.clock.now_ns();
  for (int i = 0; i < 10 && scene.server.aborted == 0; ++i) {
    scene.ends.clock.set_ns(scene.ends.responder.next_deadline_ns() + base::kNsPerMs);
    scene.ends.responder.do_work();
  }
  CHECK(scene.server.aborted == 1);
  CHECK(scene.ends.clock.now_ns() - begin_ns <= 1'020 * base::kNsPerMs);
}

TEST_CASE("tcp life: an idle link is asked for a life sign now and then, and stays") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    support::TcpRelay& relay = scene.ends.dial(kFirst);
    scene.ends.turn();
    const base::TimeNs idle_ping_ns = TcpEnds::small_requester().idle_ping_ns;
    const base::TimeNs begin_ns = scene.ends.clock.now_ns();
    CHECK(scene.ends.requester.next_deadline_ns() == begin_ns + idle_ping_ns);
    const std::uint64_t said_at_first = relay.bytes_to_right();
    while (scene.ends.clock.now_ns() < begin_ns + idle_ping_ns - kStepNs) {
      scene.ends.requester.do_work();
      scene.ends.network_turn();
      scene.ends.clock.advance_ns(kStepNs);
    }
    CHECK(relay.bytes_to_right() == said_at_first);
    while (scene.ends.clock.now_ns() < begin_ns + 4 * idle_ping_ns) {
      scene.ends.turn();
      scene.ends.clock.advance_ns(kStepNs);
    }
    CHECK(relay.bytes_to_right() > said_at_first);
    CHECK(relay.bytes_to_right() <= said_at_first + 4 * sizeof(wire::FrameHeader));
    CHECK(scene.lost(scene.ends.requester_mail).empty());
    CHECK(scene.post(kFirst, 1) == Status::ok);
    CHECK(scene.ends.requester.next_deadline_ns() <=
          scene.ends.clock.now_ns() + 100 * base::kNsPerMs);
  }
}

// Nodes tell the manager to whom they have connections, and it keeps the slots of such a daemon.
TEST_CASE(
    "tcp life: idle links to a daemon that is stopped end, also when nobody asks for anything") {
  for (const SocketIoChoice choice : support::io_choices()) {
    for (const bool sleeps : {false, true}) {
      Scene scene(choice);
      scene.ends.dial(kFirst);
      scene.ends.dial(kFirst);
      scene.ends.turn();
      const base::TimeNs begin_ns = scene.ends.clock.now_ns();
      const base::TimeNs end_ns = begin_ns + TcpEnds::small_requester().idle_ping_ns +
                                  4 * TcpEnds::small_requester().peer_detection_ns;
      std::map<std::uint64_t, LinkLoss> lost;
      while (lost.size() < 2 && scene.ends.clock.now_ns() < end_ns) {
        scene.ends.requester.do_work();
        scene.ends.network_turn();
        const base::TimeNs next_ns = scene.ends.requester.next_deadline_ns();
        scene.ends.clock.set_ns(sleeps && next_ns < end_ns
                                    ? std::max(next_ns, scene.ends.clock.now_ns()) + base::kNsPerMs
                                    : scene.ends.clock.now_ns() + kStepNs);
        lost.merge(scene.lost(scene.ends.requester_mail));
      }
      REQUIRE(lost.size() == 2);
      for (const auto& [link, cause] : lost) CHECK(cause == LinkLoss::silent);
      CHECK(scene.ends.clock.now_ns() - begin_ns >= TcpEnds::small_requester().idle_ping_ns);
      CHECK(scene.post(kFirst, 1) == Status::unreachable);
    }
  }
}

TEST_CASE("tcp life: a server lets go of what a dead asker wanted") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    scene.server.pulls = true;
    support::TcpRelay& relay = scene.ends.dial(kFirst);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1, ipc::Opcode::put, 1 << 20) == Status::ok);
    REQUIRE(scene.ends.turn_until([&] { return scene.server.held.size() == 1; }));
    relay.limit_to_right(0);
    for (int i = 0; i < 60 && scene.server.aborted == 0; ++i) {
      scene.ends.responder.do_work();
      scene.ends.clock.advance_ns(kStepNs);
    }
    CHECK(scene.server.aborted == 1);
    CHECK(scene.server.moved == 1);  // the extent is the server's again, and was said to be
    CHECK(scene.lost(scene.ends.responder_mail).at(1) == LinkLoss::silent);
  }
}

TEST_CASE("tcp life: a link that is dropped, refused or closed is reported once, with its cause") {
  Scene scene(SocketIoChoice::epoll);
  for (int i = 0; i < 5; ++i) scene.ends.dial(kFirst);
  scene.ends.turn();
  CHECK(scene.lost(scene.ends.requester_mail) ==
        std::map<std::uint64_t, LinkLoss>{{5, LinkLoss::refused}});
  REQUIRE(scene.post(kFirst, 1) == Status::ok);
  scene.ends.relays[3]->cut();
  for (int i = 0; i < 5; ++i) scene.ends.turn();
  CHECK(scene.lost(scene.ends.requester_mail) ==
        std::map<std::uint64_t, LinkLoss>{{4, LinkLoss::closed}});
  REQUIRE(scene.ends.requester_mail.control_drop_peer(kFirst.peer));
  for (int i = 0; i < 5; ++i) scene.ends.turn();
  const auto lost = scene.lost(scene.ends.requester_mail);
  CHECK(lost.size() == 3);
  for (const auto& [link, cause] : lost) CHECK(cause == LinkLoss::dropped);
  CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
  CHECK(scene.post(kFirst, 2) == Status::unreachable);
}

// A waiting receive and a new send both see the reset in one turn; the send is served first.
TEST_CASE("tcp life: a link that a peer resets is closed by the peer, whoever sees it first") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice);
    support::TcpRelay& relay = scene.ends.dial(kFirst);
    scene.ends.turn();
    REQUIRE(scene.post(kFirst, 1) == Status::ok);
    relay.reset();
    std::map<std::uint64_t, LinkLoss> lost;
    CHECK(scene.ends.requester_works_until([&] {
      lost = scene.lost(scene.ends.requester_mail);
      return !lost.empty();
    }));
    CHECK(lost == std::map<std::uint64_t, LinkLoss>{{1, LinkLoss::closed}});
  }
}

TEST_CASE("tcp life: a link that nobody took is closed with its mailbox") {
  support::UniqueFd left;
  support::UniqueFd right;
  support::tcp_pair(left, right);
  {
    TcpLinkMailbox mail(2);
    TcpLink link{std::move(left), {1}, 0, 1};
    REQUIRE(mail.control_add(link));
    CHECK_FALSE(link.socket.valid());
  }
  char byte = 0;
  CHECK(::recv(right.get(), &byte, 1, 0) == 0);
}

}  // namespace tcp_life_test
