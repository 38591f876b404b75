// Links over RDMA: what was given up does not come back, dead peers cost one detection time, and
// every link is given back exactly once.
#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <string>

#include "tests/support/rdma_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace rdma_links_test {

using namespace local_world;
using support::RdmaEnds;
using support::RdmaEndsConfig;
using Losses = RdmaEnds::Losses;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr Route kOtherShard{base::PeerId{1}, 1};
constexpr base::TimeNs kStepNs = 20 * base::kNsPerMs;
constexpr std::uint64_t kRegionBytes = 16 << 20;

// Stores the first byte of what it is sent, as a store does that replaces: the last one counts.
// Gets are answered from an extent; exists when the test says so.
struct Shelf final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    ++requests;
    left[&incoming] = incoming.pages.size();
    if (incoming.header.opcode == ipc::Opcode::exists) return held.push_back(&incoming);
    for (std::uint16_t page = 0; page < incoming.pages.size(); ++page) {
      const std::uint64_t length = incoming.pages[page].slice.length;
      key_bytes += incoming.pages[page].key_bytes;
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, page, std::span(extent).first(length));
      } else {
        incoming.responder->push(incoming, page, std::span(extent).first(length), false);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    last = result.status;
    if (result.status == Status::ok) stored = extent[0];
    if (--left[&incoming] > 0) return;
    std::vector<PageReply> replies;
    for (const PageRequest& page : incoming.pages) {
      replies.push_back({result.status, result.status == Status::ok ? page.slice.length : 0});
    }
    incoming.responder->reply(incoming, replies);
  }
  void on_cancel(Incoming&) noexcept override { ++cancelled; }
  void on_aborted(Incoming& incoming) noexcept override {
    ++aborted;
    std::erase(held, &incoming);
  }
  void answer_held() {
    for (Incoming* const incoming : std::exchange(held, {})) {
      const std::vector<PageReply> replies(incoming->pages.size());
      incoming->responder->reply(*incoming, replies);
    }
  }
  std::vector<std::byte> extent = std::vector<std::byte>(8 << 20);
  std::vector<Incoming*> held;
  std::byte stored{0};
  Status last = Status::ok;
  std::map<Incoming*, std::size_t> left;  // pages that are moving
  std::uint64_t key_bytes = 0;
  int requests = 0;
  int cancelled = 0;
  int aborted = 0;
};

struct Scene {
  explicit Scene(const RdmaEndsConfig& config = {}) : ends(config), memory(kRegionBytes) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(shelf);
    ends.keys.add(memory.region);
  }
  Status post(RequestToken token, ipc::Opcode opcode, std::uint64_t length, Route route = kRoute,
              std::uint32_t pages = 1) {
    const std::uint64_t offset = token * 256 * 1024 % kRegionBytes;
    asks.push_back(std::make_unique<Ask>(memory.region, opcode, pages, length, offset));
    return ends.requester.post(route, token, asks.back()->request);
  }
  // A put of a page of that byte.
  void put(RequestToken token, std::byte what, std::uint64_t length, Route route = kRoute) {
    std::memset(memory.region.base + token * 256 * 1024, static_cast<int>(what), length);
    REQUIRE(post(token, ipc::Opcode::put, length, route) == Status::ok);
  }
  // Gives a request up, as an engine does that got no answer to its cancel.
  void give_up(RequestToken token) {
    ends.requester.reset(kRoute, token);
    ends.requester.do_work();
    REQUIRE(answers.fenced == std::vector<RequestToken>{token});
  }
  bool replied(std::size_t count) {
    return ends.turn_until([&] { return answers.replied.size() >= count; });
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) ends.turn();
  }

  // Declared before the ends: a request refers to them until it is over.
  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  Shelf shelf;
  RdmaEnds ends;
  TestRegion memory;
};

// ---- rosters ----

// Inside the request, and pulled.
constexpr std::uint64_t kInside = 4096;
constexpr std::uint64_t kPulled = 96 * 1024;

TEST_CASE("rdma links: a put that was given up is not done behind a later one") {
  for (const std::uint64_t page_bytes : {kInside, kPulled}) {
    for (const bool roster_in_time : {false, true}) {
      for (const bool is_dialled_later : {false, true}) {
        CAPTURE(page_bytes);
        CAPTURE(roster_in_time);
        CAPTURE(is_dialled_later);
        Scene scene;
        const std::uint64_t slow = scene.ends.dial(kRoute, 0);
        if (!roster_in_time) scene.ends.hold_to_server(0);
        scene.turns(20);
        if (roster_in_time) scene.ends.hold_to_server(0);
        scene.put(1, std::byte{0x11}, page_bytes);
        scene.turns(20);
        if (!is_dialled_later) scene.ends.dial(kRoute, 1);
        scene.turns(20);
        REQUIRE(scene.shelf.requests == 0);
        scene.give_up(1);
        if (is_dialled_later) scene.ends.dial(kRoute, 1);
        scene.ends.turn();
        scene.put(2, std::byte{0x22}, page_bytes);
        REQUIRE(scene.replied(1));
        REQUIRE(scene.shelf.stored == std::byte{0x22});
        // Whatever the network held back arrives now.
        CHECK(scene.ends.fabric.under_way(*scene.ends.asking_devices[0],
                                          *scene.ends.serving_device) > 0);
        scene.ends.release_to_server(0);
        scene.turns(100);
        CHECK(scene.shelf.stored == std::byte{0x22});
        CHECK(scene.ends.lost_by_server() == Losses{{slow, LinkLoss::given_up}});
        CHECK(scene.ends.lost_by_requester() == Losses{{slow, LinkLoss::reset}});
        // The other link is as good as before.
        scene.put(3, std::byte{0x33}, page_bytes);
        REQUIRE(scene.replied(2));
        CHECK(scene.shelf.stored == std::byte{0x33});
      }
    }
  }
}

TEST_CASE("rdma links: a link to another shard is not touched by what becomes of this one") {
  Scene scene;
  const std::uint64_t slow = scene.ends.dial(kRoute, 0);
  scene.ends.dial(kOtherShard, 1);
  scene.turns(10);
  scene.ends.hold_to_server(0);
  scene.put(1, std::byte{0x11}, kPulled);
  scene.turns(10);
  scene.give_up(1);
  scene.ends.dial(kRoute, 1);
  scene.ends.turn();
  scene.put(2, std::byte{0x22}, kPulled);
  scene.put(3, std::byte{0x33}, kPulled, kOtherShard);
  CHECK(scene.replied(2));
  CHECK(scene.ends.lost_by_server() == Losses{{slow, LinkLoss::given_up}});
  CHECK(scene.ends.lost_by_requester() == Losses{{slow, LinkLoss::reset}});
}

TEST_CASE("rdma links: a put of a daemon that was killed is not done behind its successor's") {
  for (const std::uint64_t page_bytes : {kInside, kPulled}) {
    for (const bool roster_in_time : {false, true}) {
      CAPTURE(page_bytes);
      CAPTURE(roster_in_time);
      Scene scene;
      const std::uint64_t old = scene.ends.dial(kRoute, 0, {3, 1});
      if (!roster_in_time) scene.ends.hold_to_server(0);
      scene.turns(20);
      if (roster_in_time) scene.ends.hold_to_server(0);
      scene.put(1, std::byte{0x11}, page_bytes);
      scene.turns(20);
      REQUIRE(scene.shelf.requests == 0);
      // Of one process a roster would name both links; what counts here is the owner.
      scene.ends.dial(kOtherShard, 1, {3, 2});
      scene.turns(20);
      scene.put(2, std::byte{0x22}, page_bytes, kOtherShard);
      REQUIRE(scene.replied(1));
      REQUIRE(scene.shelf.stored == std::byte{0x22});
      scene.ends.release_to_server(0);
      scene.turns(100);
      CHECK(scene.shelf.stored == std::byte{0x22});
      CHECK(scene.ends.lost_by_server() == Losses{{old, LinkLoss::superseded}});
    }
  }
}

TEST_CASE("rdma links: a successor's connection over TCP ends the queue pairs of the killed one") {
  Scene scene;
  const std::uint64_t old = scene.ends.dial(kRoute, 0, {3, 1});
  const std::uint64_t other = scene.ends.dial(kRoute, 1, {4, 2});
  scene.turns(20);
  scene.ends.requester_rosters.meet({3, 3});
  scene.turns(20);
  CHECK(scene.ends.lost_by_server() == Losses{{old, LinkLoss::superseded}});
  // One that was on its way to the data agent meanwhile.
  const std::uint64_t late = scene.ends.dial(kRoute, 0, {3, 1});
  scene.turns(20);
  CHECK(scene.ends.lost_by_server() == Losses{{late, LinkLoss::superseded}});
  scene.ends.requester_rosters.meet({4, 4});
  scene.turns(20);
  CHECK(scene.ends.lost_by_server() == Losses{{other, LinkLoss::superseded}});
}

TEST_CASE("rdma links: one whose asker never says a roster ends after the time of a dead peer") {
  Scene scene;
  scene.ends.dial(kRoute, 0);
  scene.turns(20);
  const std::uint64_t mute = scene.ends.dial(kRoute, 1);
  const auto serve = [&] {
    for (int i = 0; i < 20; ++i) scene.ends.responder.do_work();
  };
  serve();
  const base::TimeNs begin_ns = scene.ends.clock.now_ns();
  Losses lost;
  for (int i = 0; i < 200 && lost.empty(); ++i) {
    REQUIRE(scene.ends.responder.next_deadline_ns() <= begin_ns + base::kNsPerSecond);
    scene.ends.clock.advance_ns(kStepNs);
    serve();
    lost = scene.ends.lost_by_server();
  }
  CHECK(lost == Losses{{mute, LinkLoss::silent}});
  CHECK(scene.ends.clock.now_ns() - begin_ns == base::kNsPerSecond);
}

// ---- requests of any size ----

TEST_CASE("rdma links: a request of as many pages, with as long keys, as there can be") {
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    CAPTURE(static_cast<int>(opcode));
    Scene scene;
    scene.ends.dial(kRoute);
    scene.ends.turn();
    const std::string key(ipc::kKeyBytesMax, 'k');
    Ask ask(scene.memory.region, opcode, ipc::kPagesPerSubmissionMax, 6000);
    for (PageRequest& page : ask.list) {
      page.key = key.data();
      page.key_bytes = static_cast<std::uint32_t>(key.size());
    }
    std::memset(scene.memory.region.base, 0x44, ipc::kPagesPerSubmissionMax * 6000);
    std::fill(scene.shelf.extent.begin(), scene.shelf.extent.end(), std::byte{0x55});
    REQUIRE(scene.ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    // A small one does not wait for it.
    REQUIRE(scene.post(2, ipc::Opcode::exists, 0) == Status::ok);
    REQUIRE(scene.ends.turn_until([&] { return !scene.shelf.held.empty(); }));
    CHECK(scene.answers.replied.empty());
    scene.shelf.answer_held();
    REQUIRE(scene.replied(2));
    CHECK(scene.answers.replied == std::vector<RequestToken>{2, 1});
    REQUIRE(scene.answers.last.size() == ipc::kPagesPerSubmissionMax);
    for (const PageReply& page : scene.answers.last) CHECK(page.status == Status::ok);
    CHECK(scene.shelf.key_bytes == std::uint64_t{ipc::kPagesPerSubmissionMax} * key.size());
    const std::byte* const from = scene.memory.region.base;
    const auto moved = opcode == ipc::Opcode::put ? std::byte{0x44} : std::byte{0x55};
    CHECK(std::all_of(from, from + ipc::kPagesPerSubmissionMax * 6000,
                      [moved](std::byte b) { return b == moved; }));
    CHECK(scene.shelf.stored == moved);
  }
}

// ---- memory whose keys are not there yet ----

TEST_CASE("rdma links: a request whose memory is not registered yet is not taken, or waits there") {
  Scene scene;
  scene.ends.dial(kRoute);
  scene.ends.turn();
  scene.ends.keys.knows_remote = false;
  CHECK(scene.post(1, ipc::Opcode::get, kPulled) == Status::unsupported);
  CHECK(scene.post(1, ipc::Opcode::put, kPulled) == Status::unsupported);
  // What travels inside a message needs none.
  scene.put(1, std::byte{0x11}, kInside);
  REQUIRE(scene.replied(1));
  scene.ends.keys.knows_remote = true;
  scene.ends.keys.knows_local = false;
  scene.put(2, std::byte{0x22}, kPulled);
  scene.turns(50);
  CHECK(scene.answers.replied.size() == 1);
  // Nobody wakes the server when a key is there: it looks for itself.
  const base::TimeNs next_ns = scene.ends.responder.next_deadline_ns();
  CHECK(next_ns <= scene.ends.clock.now_ns() + 10 * base::kNsPerMs);
  // Others are not held up by it.
  scene.put(3, std::byte{0x33}, kInside);
  REQUIRE(scene.replied(2));
  scene.ends.keys.knows_local = true;
  REQUIRE(scene.replied(3));
  CHECK(scene.answers.replied == std::vector<RequestToken>{1, 3, 2});
  CHECK(scene.shelf.stored == std::byte{0x22});
  // And one that waits for keys can be cancelled.
  scene.ends.keys.knows_local = false;
  scene.put(4, std::byte{0x44}, kPulled);
  scene.turns(20);
  scene.ends.requester.cancel(kRoute, 4);
  REQUIRE(scene.replied(4));
  CHECK(scene.shelf.last == Status::cancelled);
  CHECK(scene.answers.fenced.empty());
}

// ---- refused ----

TEST_CASE("rdma links: no more links on a route than a roster can name") {
  RdmaEndsConfig many;
  many.asking.links_max = wire::kRosterLinksMax + 4;
  many.serving.links_max = wire::kRosterLinksMax + 4;
  Scene scene(many);
  for (std::uint32_t i = 0; i < wire::kRosterLinksMax; ++i) {
    scene.ends.dial(kRoute);
    scene.ends.turn();
  }
  scene.ends.dial(kRoute);
  scene.ends.dial(kOtherShard);
  scene.turns(20);
  CHECK(scene.ends.lost_by_requester() == Losses{{wire::kRosterLinksMax + 1, LinkLoss::refused}});
  CHECK(scene.ends.lost_by_requester().empty());
}

TEST_CASE("rdma links: one that finds no place is given back behind its fence, others go on") {
  RdmaEndsConfig few;
  few.asking.links_max = 1;
  Scene scene(few);
  scene.ends.dial(kRoute);
  scene.turns(20);
  scene.ends.asking_devices[0]->hold_fences(true);
  scene.ends.dial(kOtherShard);
  scene.turns(20);
  CHECK(scene.ends.lost_by_requester().empty());
  CHECK(scene.ends.requester.next_deadline_ns() <= scene.ends.clock.now_ns() + base::kNsPerMs);
  scene.put(1, std::byte{0x11}, kPulled);
  CHECK(scene.replied(1));
  scene.ends.asking_devices[0]->hold_fences(false);
  scene.turns(20);
  CHECK(scene.ends.lost_by_requester() == Losses{{2, LinkLoss::refused}});
}

TEST_CASE("rdma links: each of those that find no place is given back, none twice") {
  Scene scene;
  std::map<std::uint64_t, LinkLoss> lost;
  // Ten in one turn where four have a place.
  for (std::uint16_t shard = 0; shard < 10; ++shard) scene.ends.dial({base::PeerId{1}, shard});
  for (int i = 0; i < 50; ++i) {
    scene.ends.turn();
    for (const auto& [link, cause] : scene.ends.lost_by_requester()) {
      CHECK(lost.emplace(link, cause).second);
    }
  }
  CHECK(lost == Losses{{5, LinkLoss::refused},
                       {6, LinkLoss::refused},
                       {7, LinkLoss::refused},
                       {8, LinkLoss::refused},
                       {9, LinkLoss::refused},
                       {10, LinkLoss::refused}});
  const Losses by_server = scene.ends.lost_by_server();
  CHECK(by_server.size() == 6);
  // Those that have one work.
  scene.put(1, std::byte{0x11}, kPulled);
  CHECK(scene.replied(1));
}

TEST_CASE("rdma links: a place is free again when its link was given back") {
  Scene scene;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    for (std::uint16_t shard = 0; shard < 4; ++shard) scene.ends.dial({base::PeerId{1}, shard});
    scene.turns(10);
    scene.put(1, std::byte{0x11}, kPulled);
    REQUIRE(scene.replied(static_cast<std::size_t>(round) + 1));
    REQUIRE(scene.ends.requester_mail.control_drop_peer(base::PeerId{1}));
    REQUIRE(scene.ends.responder_mail.control_drop_peer(base::PeerId{77}));
    scene.turns(2);
    CHECK(scene.ends.lost_by_requester().size() == 4);
    CHECK(scene.ends.lost_by_server().size() == 4);
  }
}

// ---- life ----

TEST_CASE("rdma links: a silent peer is dead within its detection time") {
  Scene scene;
  const std::uint64_t link = scene.ends.dial(kRoute);
  scene.turns(20);
  REQUIRE(scene.post(1, ipc::Opcode::get, kPulled) == Status::ok);
  // The peer's daemon is stopped, its device is not: nobody gives the responder a turn.
  base::TimeNs waited_ns = 0;
  while (scene.answers.fenced.empty() && waited_ns < base::kNsPerSecond) {
    scene.ends.requester.do_work();
    scene.ends.network_turn();
    scene.ends.clock.advance_ns(kStepNs);
    waited_ns += kStepNs;
  }
  CHECK(waited_ns >= 300 * base::kNsPerMs);
  CHECK(waited_ns <= 300 * base::kNsPerMs + 3 * kStepNs);
  CHECK(scene.ends.lost_by_requester() == Losses{{link, LinkLoss::silent}});
  CHECK(scene.post(2, ipc::Opcode::get, kPulled) == Status::unreachable);
}

TEST_CASE("rdma links: no request goes over a link before its other end was heard") {
  Scene scene;
  scene.ends.hold_to_requester(0);
  const std::uint64_t swallowed = scene.ends.dial(kRoute, 0, {}, false);
  scene.turns(20);
  CHECK(scene.post(1, ipc::Opcode::exists, 0) == Status::unreachable);
  // Another rail of the same route carries what there is, and nothing is asked for twice.
  const std::uint64_t heard = scene.ends.dial(kRoute, 1, {}, false);
  scene.turns(20);
  base::TimeNs waited_ns = 0;
  Losses lost;
  for (RequestToken token = 1; lost.empty() && waited_ns < base::kNsPerSecond; ++token) {
    scene.put(token, std::byte{0x11}, kPulled);
    CHECK(scene.replied(token));
    scene.ends.clock.advance_ns(kStepNs);
    waited_ns += kStepNs;
    lost = scene.ends.lost_by_requester();
  }
  CHECK(lost == Losses{{swallowed, LinkLoss::silent}});
  CHECK(waited_ns <= 300 * base::kNsPerMs + 3 * kStepNs);
  CHECK(scene.answers.fenced.empty());
  CHECK(scene.ends.counters.value("asking.asked_again") == 0);
  CHECK(heard != swallowed);
}

// Long packets go under, in one direction; short ones pass.
TEST_CASE("rdma links: a path that swallows long packets is found out before it is used") {
  constexpr std::uint32_t kMtuBytes = 1500;
  for (const bool to_server : {true, false}) {
    CAPTURE(to_server);
    Scene scene;
    if (to_server) scene.ends.swallow_to_server(0, kMtuBytes);
    if (!to_server) scene.ends.swallow_to_requester(0, kMtuBytes);
    const std::uint64_t link = scene.ends.dial(kRoute, 0, {}, false);
    std::unique_ptr<RdmaLink> ended;
    for (int i = 0; i < 500 && ended == nullptr; ++i) {  // ten seconds
      scene.turns(20);
      CHECK(scene.post(1, ipc::Opcode::exists, 0) == Status::unreachable);
      scene.ends.clock.advance_ns(kStepNs);
      ended = scene.ends.requester_mail.control_take_ended();
    }
    REQUIRE(ended != nullptr);
    CHECK(ended->link == link);
    CHECK(ended->loss == LinkLoss::silent);
    CHECK_FALSE(ended->was_heard);
  }
}

TEST_CASE("rdma links: a path that begins to swallow long packets ends its idle links") {
  Scene scene;
  const std::uint64_t link = scene.ends.dial(kRoute);
  scene.turns(20);
  scene.ends.swallow_to_requester(0, 1500);
  Losses lost;
  for (int i = 0; i < 500 && lost.empty(); ++i) {
    scene.turns(20);
    scene.ends.clock.advance_ns(kStepNs);
    lost = scene.ends.lost_by_requester();
  }
  CHECK(lost == Losses{{link, LinkLoss::silent}});
}

TEST_CASE("rdma links: a link that ends tells whether its other end was ever heard") {
  for (const bool is_swallowed : {true, false}) {
    CAPTURE(is_swallowed);
    Scene scene;
    if (is_swallowed) scene.ends.hold_to_server(0);
    scene.ends.dial(kRoute, 0, {}, false);
    scene.turns(20);
    std::unique_ptr<RdmaLink> ended;
    for (int i = 0; i < 500 && ended == nullptr; ++i) {  // ten seconds
      scene.ends.requester.do_work();
      scene.ends.clock.advance_ns(kStepNs);
      ended = scene.ends.requester_mail.control_take_ended();
    }
    REQUIRE(ended != nullptr);
    CHECK(ended->loss == LinkLoss::silent);
    CHECK(ended->was_heard == !is_swallowed);
  }
}

TEST_CASE("rdma links: an idle link is asked for a life sign, so no request finds a dead one") {
  Scene scene;
  const std::uint64_t link = scene.ends.dial(kRoute);
  const auto wait = [&](base::TimeNs wait_ns, bool is_alive) {
    const base::TimeNs until_ns = scene.ends.clock.now_ns() + wait_ns;
    // As an agent sleeps: until what is due next.
    while (scene.ends.clock.now_ns() < until_ns) {
      if (is_alive) scene.turns(10);
      if (!is_alive) scene.ends.requester.do_work();
      const base::TimeNs due_ns = std::min(scene.ends.requester.next_deadline_ns(), until_ns);
      scene.ends.clock.advance_ns(std::max(due_ns, scene.ends.clock.now_ns() + base::kNsPerMs) -
                                  scene.ends.clock.now_ns());
    }
  };
  wait(20 * base::kNsPerSecond, true);
  const std::uint64_t pings = scene.ends.counters.value("asking.sent_parts");
  CHECK(pings >= 9);  // the roster is not sent before a request
  CHECK(pings <= 20);
  CHECK(scene.ends.lost_by_requester().empty());
  wait(3 * base::kNsPerSecond, false);
  CHECK(scene.ends.lost_by_requester() == Losses{{link, LinkLoss::silent}});
}

TEST_CASE("rdma links: a peer that works for long and answers pings lives") {
  Scene scene;
  scene.ends.dial(kRoute);
  scene.ends.turn();
  REQUIRE(scene.post(1, ipc::Opcode::exists, 0) == Status::ok);
  for (int i = 0; i < 200; ++i) {  // four seconds
    scene.ends.turn();
    scene.ends.clock.advance_ns(kStepNs);
  }
  CHECK(scene.answers.fenced.empty());
  CHECK(scene.shelf.aborted == 0);
  scene.shelf.answer_held();
  CHECK(scene.replied(1));
}

TEST_CASE("rdma links: who was stopped itself does not take its own silence for the peer's") {
  Scene scene;
  scene.ends.dial(kRoute);
  scene.ends.turn();
  REQUIRE(scene.post(1, ipc::Opcode::exists, 0) == Status::ok);
  scene.turns(3);
  scene.ends.clock.advance_ns(5 * base::kNsPerSecond);
  scene.turns(5);
  CHECK(scene.answers.fenced.empty());
  CHECK(scene.shelf.aborted == 0);
  scene.shelf.answer_held();
  CHECK(scene.replied(1));
}

TEST_CASE("rdma links: a server gives up on an asker that is silent while it is served") {
  Scene scene;
  const std::uint64_t link = scene.ends.dial(kRoute);
  scene.turns(20);
  // While nothing is asked for, silence says nothing.
  for (int i = 0; i < 100; ++i) {
    scene.ends.responder.do_work();
    scene.ends.network_turn();
    scene.ends.clock.advance_ns(kStepNs);
  }
  CHECK(scene.ends.lost_by_server().empty());
  REQUIRE(scene.post(1, ipc::Opcode::exists, 0) == Status::ok);
  REQUIRE(scene.ends.turn_until([&] { return !scene.shelf.held.empty(); }));
  base::TimeNs waited_ns = 0;
  for (; scene.shelf.aborted == 0 && waited_ns < 3 * base::kNsPerSecond; waited_ns += kStepNs) {
    scene.ends.responder.do_work();
    scene.ends.network_turn();
    scene.ends.clock.advance_ns(kStepNs);
  }
  CHECK(waited_ns >= base::kNsPerSecond);
  CHECK(waited_ns <= base::kNsPerSecond + 3 * kStepNs);
  CHECK(scene.ends.lost_by_server() == Losses{{link, LinkLoss::silent}});
}

TEST_CASE("rdma links: what an end does when its queue pair fails by itself") {
  for (const bool is_requesters : {false, true}) {
    CAPTURE(is_requesters);
    Scene scene;
    const std::uint64_t link = scene.ends.dial(kRoute);
    scene.turns(20);
    REQUIRE(scene.post(1, ipc::Opcode::exists, 0) == Status::ok);
    REQUIRE(scene.ends.turn_until([&] { return !scene.shelf.held.empty(); }));
    if (is_requesters) {
      scene.ends.asking_devices[0]->fail_queue_pair(scene.ends.asking_numbers[link]);
    } else {
      scene.ends.serving_device->fail_queue_pair(scene.ends.serving_numbers[link]);
    }
    // The other end hears nothing, and finds out by itself.
    for (int i = 0; i < 200; ++i) {
      scene.ends.turn();
      scene.ends.clock.advance_ns(kStepNs);
    }
    CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
    CHECK(scene.shelf.aborted == 1);
    CHECK(scene.ends.lost_by_requester().size() == 1);
    CHECK(scene.ends.lost_by_server().size() == 1);
  }
}

}  // namespace rdma_links_test
