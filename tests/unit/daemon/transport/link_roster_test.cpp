// What was given up does not come back: the links that a roster leaves out end, whatever they still
// carry and whenever that arrives.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <map>

#include "daemon/transport/requester_rosters.h"
#include "daemon/transport/roster_wait.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace link_roster_test {

using namespace local_world;
using support::TcpEnds;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr Route kOtherShard{base::PeerId{1}, 1};

LinkRoster roster(std::uint64_t requester, std::uint64_t statement, std::uint64_t link,
                  const std::vector<std::uint64_t>& links) {
  LinkRoster said{requester, statement, link, static_cast<std::uint32_t>(links.size()), {}};
  std::copy(links.begin(), links.end(), said.links.begin());
  return said;
}

TEST_CASE("roster: the bytes, and what no asker says") {
  const LinkRoster said = roster(7, 30, 12, {11, 12, 29});
  wire::RosterBody body;
  encode_roster(said, reinterpret_cast<std::byte*>(&body));
  LinkRoster heard;
  REQUIRE(decode_roster(body, heard));
  CHECK(heard.requester == 7);
  CHECK(heard.statement == 30);
  CHECK(heard.link == 12);
  CHECK(std::vector<std::uint64_t>(heard.in_use().begin(), heard.in_use().end()) ==
        std::vector<std::uint64_t>{11, 12, 29});
  const std::vector<std::function<void(wire::RosterBody&)>> changes = {
      [](auto& b) { b.requester = 0; },
      [](auto& b) { b.count = 0; },
      [](auto& b) { b.count = wire::kRosterLinksMax + 1; },
      [](auto& b) { b.count = 2; },
      [](auto& b) { b.reserved = 1; },
      [](auto& b) { b.link = 13; },
      [](auto& b) { b.links[1] = 13; },
      [](auto& b) { b.links[2] = 30; },
      [](auto& b) { b.links[wire::kRosterLinksMax - 1] = 1; },
  };
  for (const auto& change : changes) {
    wire::RosterBody wrong = body;
    change(wrong);
    CHECK_FALSE(decode_roster(wrong, heard));
  }
}

TEST_CASE("roster: the newest statement counts, in whatever order they come") {
  RequesterRosters rosters(4);
  CHECK(rosters.note(roster(7, 3, 1, {1, 2}), true));
  CHECK_FALSE(rosters.leaves_out(7, 1));
  CHECK_FALSE(rosters.leaves_out(7, 2));
  CHECK_FALSE(rosters.leaves_out(7, 9));  // younger than what was said
  CHECK(rosters.note(roster(7, 6, 5, {2, 5}), true));
  CHECK(rosters.leaves_out(7, 1));
  CHECK(rosters.note(roster(7, 4, 2, {1, 2}), true));  // was on its way for long
  CHECK(rosters.leaves_out(7, 1));
  CHECK(rosters.leaves_out(7, 4));
  CHECK_FALSE(rosters.leaves_out(7, 5));
  CHECK(rosters.note(roster(8, 3, 1, {1}), true));
  CHECK_FALSE(rosters.leaves_out(8, 1));
}

TEST_CASE("roster: who has no link is forgotten first, and that is said") {
  RequesterRosters rosters(2);  // room for four
  for (const std::uint64_t requester : {1u, 2u, 3u, 4u}) {
    CHECK(rosters.note(roster(requester, 2, 1, {1}), true));
  }
  for (const std::uint64_t requester : {2u, 3u, 4u}) rosters.leave(requester);
  CHECK(rosters.note(roster(2, 4, 3, {3}), true));  // is back
  CHECK_FALSE(rosters.note(roster(5, 2, 1, {1}), true));
  CHECK(rosters.leaves_out(2, 1));
  CHECK(rosters.leaves_out(4, 0));
  CHECK_FALSE(rosters.note(roster(6, 2, 1, {1}), true));
  CHECK_FALSE(rosters.leaves_out(1, 1));  // has a link all the time
  CHECK(rosters.leaves_out(2, 1));
}

// Stores what it is sent, as a store does that replaces: the last one counts.
struct Shelf final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    ++requests;
    incoming.responder->pull(incoming, 0, std::span(arriving).first(length_of(incoming)));
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    if (result.status == Status::ok) stored = arriving[0];
    const PageReply reply{result.status, 0};
    incoming.responder->reply(incoming, {&reply, 1});
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { ++aborted; }
  static std::size_t length_of(const Incoming& incoming) {
    return static_cast<std::size_t>(incoming.pages[0].slice.length);
  }
  std::vector<std::byte> arriving = std::vector<std::byte>(256 * 1024);
  std::byte stored{0};
  int requests = 0;
  int aborted = 0;
};

struct Scene {
  Scene(SocketIoChoice choice, std::uint64_t bytes)
      : page_bytes(bytes), ends(choice), memory(1 << 20) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(shelf);
  }
  // A put of a page of that byte.
  void put(RequestToken token, std::byte what, Route route = kRoute) {
    asks.push_back(std::make_unique<Ask>(memory.region, ipc::Opcode::put, 1, page_bytes,
                                         token * (128U << 10)));
    std::memset(memory.region.base + token * (128U << 10), static_cast<int>(what), page_bytes);
    REQUIRE(ends.requester.post(route, token, asks.back()->request) == Status::ok);
  }
  // Gives a request up, as an engine does that got no answer to its cancel.
  void give_up(RequestToken token) {
    ends.requester.reset(kRoute, token);
    REQUIRE(ends.requester_works_until([this] { return !answers.fenced.empty(); }));
    REQUIRE(answers.fenced == std::vector<RequestToken>{token});
  }
  std::map<std::uint64_t, LinkLoss> lost_by_server() {
    std::map<std::uint64_t, LinkLoss> lost;
    LinkLost one;
    while (ends.responder_mail.control_take_lost(one)) lost[one.link] = one.cause;
    return lost;
  }

  const std::uint64_t page_bytes;
  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  Shelf shelf;
  TcpEnds ends;
  TestRegion memory;
};

// Inside the request, and pulled.
constexpr std::uint64_t kInside = 4096;
constexpr std::uint64_t kPulled = 96 * 1024;

TEST_CASE("roster: a put that was given up is not done behind a later one") {
  for (const SocketIoChoice choice : support::io_choices()) {
    for (const std::uint64_t page_bytes : {kInside, kPulled}) {
      // How much of the first link's bytes arrive in time: nothing, its roster, some of the page.
      for (const std::uint64_t in_time : {0u, 144u, 3000u, 90'000u}) {
        if (in_time >= page_bytes) continue;
        for (const bool is_dialled_later : {false, true}) {
          CAPTURE(static_cast<int>(choice));
          CAPTURE(page_bytes);
          CAPTURE(in_time);
          CAPTURE(is_dialled_later);
          Scene scene(choice, page_bytes);
          support::TcpRelay& slow = scene.ends.dial(kRoute);
          slow.limit_to_right(in_time);
          scene.ends.turn();
          scene.put(1, std::byte{0x11});
          if (!is_dialled_later) scene.ends.dial(kRoute);
          for (int i = 0; i < 50; ++i) scene.ends.turn();
          REQUIRE(scene.answers.replied.empty());
          scene.give_up(1);
          if (is_dialled_later) scene.ends.dial(kRoute);
          scene.ends.turn();
          scene.put(2, std::byte{0x22});
          REQUIRE(scene.ends.turn_until([&] { return !scene.answers.replied.empty(); }));
          REQUIRE(scene.shelf.stored == std::byte{0x22});
          // Whatever the network held back arrives now.
          slow.open();
          for (int i = 0; i < 100; ++i) scene.ends.turn();
          CHECK(scene.shelf.stored == std::byte{0x22});
          CHECK(scene.lost_by_server() ==
                std::map<std::uint64_t, LinkLoss>{{1, LinkLoss::given_up}});
          // The other link is as good as before.
          scene.put(3, std::byte{0x33});
          REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == 2; }));
          CHECK(scene.shelf.stored == std::byte{0x33});
        }
      }
    }
  }
}

TEST_CASE("roster: links of other askers and other shards are not touched") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice, kPulled);
    OwnRoster other_links(4);
    TcpLinkMailbox other_mail{16};
    TcpRequester other(TcpEnds::small_requester(), scene.ends.clock, *scene.ends.requester_io,
                       scene.ends.own_mover, other_links, other_mail);
    Answers other_answers;
    other.connect(other_answers, nullptr);
    support::TcpRelay between;
    TcpLink asking{between.take_left(), kRoute.peer, kRoute.shard, 50};
    TcpLink serving{between.take_right(), {78}, kRoute.shard, 50};
    other.add_link(std::move(asking));
    scene.ends.responder.add_link(std::move(serving));
    support::TcpRelay& slow = scene.ends.dial(kRoute);
    scene.ends.dial(kOtherShard);
    scene.ends.turn();
    slow.limit_to_right(3000);
    scene.put(1, std::byte{0x11});
    for (int i = 0; i < 20; ++i) scene.ends.turn();
    scene.give_up(1);
    scene.ends.dial(kRoute);
    scene.ends.turn();
    scene.put(2, std::byte{0x22});
    REQUIRE(scene.ends.turn_until([&] { return !scene.answers.replied.empty(); }));
    scene.put(3, std::byte{0x33}, kOtherShard);
    REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == 2; }));
    const Ask ask(scene.memory.region, ipc::Opcode::put, 1, kPulled);
    REQUIRE(other.post(kRoute, 9, ask.request) == Status::ok);
    CHECK(scene.ends.turn_until([&] {
      other.do_work();
      between.pump();
      return !other_answers.replied.empty();
    }));
    CHECK(scene.lost_by_server() == std::map<std::uint64_t, LinkLoss>{{1, LinkLoss::given_up}});
  }
}

// ---- somebody on the way ----

// What says that the requester gave up all links but one that nobody has.
std::vector<std::byte> forged_roster(std::uint64_t requester, std::uint64_t link) {
  const LinkRoster said = roster(requester, ~std::uint64_t{0}, link, {link});
  wire::FrameHeader header = frame_header(wire::FrameKind::roster, 0, 0);
  header.body_bytes = sizeof(wire::RosterBody);
  std::vector<std::byte> bytes(sizeof header + header.body_bytes);
  encode_roster(said, bytes.data() + sizeof header);
  FrameSeal nobodys;
  header.digest = nobodys.digest(bytes.data() + sizeof header, header.body_bytes);
  seal_header(header, nobodys, bytes.data());
  return bytes;
}

TEST_CASE("roster: a forged one ends the link that it came over, and nothing else") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice, kPulled);
    scene.ends.has_keys = true;
    support::TcpRelay& attacked = scene.ends.dial(kRoute);
    scene.ends.dial(kRoute);
    scene.ends.turn();
    scene.put(1, std::byte{0x11});
    REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == 1; }));
    // Everybody on the way has read who the requester is.
    LinkRoster read;
    read.requester = scene.ends.own_roster.say(0).requester;
    attacked.insert_to_right(forged_roster(read.requester, 1));
    for (int i = 0; i < 20; ++i) scene.ends.turn();
    CHECK(scene.lost_by_server() == std::map<std::uint64_t, LinkLoss>{{1, LinkLoss::protocol}});
    scene.put(2, std::byte{0x22});
    CHECK(scene.ends.turn_until([&] { return scene.answers.replied.size() == 2; }));
    // A link that is dialled afterwards is no stranger.
    scene.ends.dial(kRoute);
    for (int i = 0; i < 20; ++i) scene.ends.turn();
    scene.put(3, std::byte{0x33});
    CHECK(scene.ends.turn_until([&] { return scene.answers.replied.size() == 3; }));
    CHECK(scene.lost_by_server() == std::map<std::uint64_t, LinkLoss>{});
  }
}

// ---- a daemon that was killed, and its successor ----

constexpr LinkOwner kKilled{3, 1};
constexpr LinkOwner kSuccessor{3, 2};
constexpr LinkOwner kOther{4, 1};

// Another process, which asks the responder of a scene.
struct Process {
  Process(Scene& asked, LinkOwner who)
      : scene(asked),
        owner(who),
        requester(TcpEnds::small_requester(), asked.ends.clock, *asked.ends.requester_io,
                  asked.ends.own_mover, links, mail) {
    requester.connect(answers, nullptr);
  }
  void dial(std::uint64_t name) {
    requester.add_link({relay.take_left(), kRoute.peer, kRoute.shard, name});
    scene.ends.responder.add_link({relay.take_right(), {78}, kRoute.shard, name, owner});
  }
  // Until it is answered.
  bool put(RequestToken token, std::byte what) {
    asks.push_back(std::make_unique<Ask>(scene.memory.region, ipc::Opcode::put, 1, scene.page_bytes,
                                         token * (128U << 10)));
    std::memset(scene.memory.region.base + token * (128U << 10), static_cast<int>(what),
                scene.page_bytes);
    const std::size_t before = answers.replied.size();
    if (requester.post(kRoute, token, asks.back()->request) != Status::ok) return false;
    for (int i = 0; i < 5000 && answers.replied.size() == before; ++i) {
      requester.do_work();
      relay.pump();
      scene.ends.responder.do_work();
      relay.pump();
    }
    return answers.replied.size() > before;
  }

  Scene& scene;
  const LinkOwner owner;
  std::vector<std::unique_ptr<Ask>> asks;
  OwnRoster links{4};
  TcpLinkMailbox mail{16};
  Answers answers;
  support::TcpRelay relay;
  TcpRequester requester;
};

TEST_CASE("lives: a put of a daemon that was killed is not done behind its successor's") {
  for (const SocketIoChoice choice : support::io_choices()) {
    for (const std::uint64_t page_bytes : {kInside, kPulled}) {
      for (const std::uint64_t in_time : {0u, 144u, 3000u, 90'000u}) {
        if (in_time >= page_bytes) continue;
        CAPTURE(static_cast<int>(choice));
        CAPTURE(page_bytes);
        CAPTURE(in_time);
        Scene scene(choice, page_bytes);
        support::TcpRelay& slow = scene.ends.dial(kRoute, kKilled);
        slow.limit_to_right(in_time);
        scene.ends.turn();
        scene.put(1, std::byte{0x11});
        for (int i = 0; i < 50; ++i) scene.ends.turn();
        REQUIRE(scene.answers.replied.empty());
        Process bystander(scene, kOther);
        bystander.dial(50);
        REQUIRE(bystander.put(2, std::byte{0x44}));
        // From here on the first one has no turns. The network has its bytes.
        Process successor(scene, kSuccessor);
        successor.dial(51);
        REQUIRE(successor.put(3, std::byte{0x22}));
        REQUIRE(scene.shelf.stored == std::byte{0x22});
        slow.open();
        for (int i = 0; i < 100; ++i) {
          scene.ends.network_turn();
          scene.ends.responder.do_work();
        }
        CHECK(scene.shelf.stored == std::byte{0x22});
        CHECK(scene.lost_by_server() ==
              std::map<std::uint64_t, LinkLoss>{{1, LinkLoss::superseded}});
        CHECK(bystander.put(4, std::byte{0x55}));
        CHECK(successor.put(5, std::byte{0x33}));
      }
    }
  }
}

TEST_CASE("lives: a link of an older life that is handed over last ends at once") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice, kPulled);
    Process successor(scene, kSuccessor);
    successor.dial(51);
    Process killed(scene, kKilled);
    killed.dial(50);
    CHECK_FALSE(killed.put(1, std::byte{0x11}));
    CHECK(scene.shelf.requests == 0);
    CHECK(scene.lost_by_server() == std::map<std::uint64_t, LinkLoss>{{50, LinkLoss::superseded}});
    CHECK(successor.put(2, std::byte{0x22}));
  }
}

TEST_CASE("lives: links of the killed daemon that fill every place do not keep its successor out") {
  Scene scene(SocketIoChoice::epoll, kPulled);
  for (int i = 0; i < 4; ++i) scene.ends.dial(kRoute, kKilled);
  scene.ends.turn();
  // The first one finds no place, and is dialled again.
  for (int i = 0; i < 2; ++i) {
    Process successor(scene, kSuccessor);
    successor.dial(50);
    const bool has_place = successor.put(1, std::byte{0x22});
    CHECK(has_place == (i == 1));
  }
}

TEST_CASE("roster: no more links on a route than it can name") {
  TcpRequesterConfig many = TcpEnds::small_requester();
  many.links_max = wire::kRosterLinksMax + 4;
  TcpResponderConfig serving = TcpEnds::small_responder();
  serving.links_max = wire::kRosterLinksMax + 4;
  TcpEnds ends(SocketIoChoice::epoll, nullptr, many, serving);
  Answers answers;
  ends.requester.connect(answers, nullptr);
  for (std::uint32_t i = 0; i <= wire::kRosterLinksMax; ++i) ends.dial(kRoute);
  ends.dial(kOtherShard);
  ends.turn();
  ends.turn();
  LinkLost lost;
  REQUIRE(ends.requester_mail.control_take_lost(lost));
  CHECK(lost.link == wire::kRosterLinksMax + 1);
  CHECK(lost.cause == LinkLoss::refused);
  CHECK_FALSE(ends.requester_mail.control_take_lost(lost));
}

// A link on which nothing is ever said.
struct MuteLink {
  MuteLink(Scene& scene, std::uint64_t name) {
    support::UniqueFd ours;
    support::tcp_pair(ours, peer);
    scene.ends.responder.add_link({std::move(ours), {77}, 0, name});
  }
  support::UniqueFd peer;
};

// Lets that much time pass, with a turn whenever the responder wants one.
void pass(Scene& scene, base::TimeNs most_ns) {
  const base::TimeNs end_ns = scene.ends.clock.now_ns() + most_ns;
  while (scene.ends.clock.now_ns() < end_ns) {
    const base::TimeNs now_ns = scene.ends.clock.now_ns();
    const base::TimeNs wanted_ns =
        std::max(scene.ends.responder.next_deadline_ns(), now_ns + base::kNsPerMs);
    scene.ends.clock.advance_ns(std::min(wanted_ns, end_ns) - now_ns);
    for (int i = 0; i < 20; ++i) scene.ends.turn();
  }
}

TEST_CASE("roster: a link without one ends after the time of a dead peer, others stay") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice, kPulled);
    scene.ends.dial(kRoute);
    for (int i = 0; i < 20; ++i) scene.ends.turn();
    const MuteLink mute(scene, 99);
    scene.ends.turn();
    const base::TimeNs silence_ns = TcpEnds::small_responder().peer_silence_ns;
    pass(scene, silence_ns - base::kNsPerMs);
    CHECK(scene.lost_by_server().empty());
    pass(scene, base::kNsPerMs);
    CHECK(scene.lost_by_server() == std::map<std::uint64_t, LinkLoss>{{99, LinkLoss::silent}});
    CHECK(scene.ends.responder.next_deadline_ns() == base::kNoDeadline);
    pass(scene, 10 * silence_ns);
    CHECK(scene.lost_by_server().empty());
  }
}

TEST_CASE("roster: links without one that take all places go early, and others find one") {
  for (const SocketIoChoice choice : support::io_choices()) {
    Scene scene(choice, kPulled);
    std::vector<std::unique_ptr<MuteLink>> mute;
    for (std::uint64_t i = 0; i < 4; ++i) mute.push_back(std::make_unique<MuteLink>(scene, 90 + i));
    pass(scene, kRosterChanceNs);
    CHECK(scene.lost_by_server().size() == 4);
    scene.ends.dial(kRoute);
    scene.ends.turn();
    scene.put(1, std::byte{0x11});
    CHECK(scene.ends.turn_until([&] { return scene.shelf.stored == std::byte{0x11}; }));
  }
}

}  // namespace link_roster_test
