// The queue pairs of two daemons' data agents: connected, ended at both ends, and made anew.
#include "daemon/peers/queue_pair_links.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <map>

#include "tests/unit/daemon/peers/queue_pair_ends.h"

namespace queue_pair_links_test {

using namespace queue_pair_ends;
using control::QueuePairRefusal;

TEST_CASE("an agent gets a queue pair to a shard over each rail, and so does the shard's agent") {
  World world;
  CHECK_FALSE(world.requester.links->has_links(kServer));
  world.reach(1, 0);
  CHECK(world.requester.links->has_links(kServer));
  world.until_open(2);
  CHECK(world.requester.one.links.size() == 2);
  CHECK(world.server.two.links.size() == 2);
  check_that_all_are_connected(world);
  CHECK(world.requester.one.links[0]->rail != world.requester.one.links[1]->rail);
  CHECK(world.view().connections == 2);
  CHECK(world.view().open == 2);
  CHECK(world.view().trouble.empty());
  const std::map<std::string, std::size_t> requesters = {
      {cluster::full_name({world.requester.daemon.self.incarnation, cluster::ClusterRole::node,
                           world.requester.daemon.self.name}),
       2}};
  CHECK(world.server.links->requesters() == requesters);
  // What is known already is not connected again; what is not, is.
  world.reach(1, 0);
  world.reach(0, 0);
  world.reach(1, 1);
  world.until_open(6);
  check_that_all_are_connected(world);
  CHECK(world.requester.made() == 6);
  CHECK(world.server.accepted == 6);
}

// Of this thread: a busy machine changes little.
std::uint64_t cpu_us() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(used.tv_nsec) / 1'000;
}

TEST_CASE("one more route costs no more when there are 20,000") {
  World::Shape shape;
  shape.room = 1;  // so that the others are not dialled
  World world(shape);
  std::uint16_t shard = 0;
  const auto reach = [&](int count) {
    const std::uint64_t before_us = cpu_us();
    for (int i = 0; i < count; ++i) world.reach(shard++);
    return cpu_us() - before_us;
  };
  const std::uint64_t first_us = reach(1'000);
  (void)reach(19'000);
  const std::uint64_t last_us = reach(1'000);
  MESSAGE("the first thousand took " << first_us << " us, the last one " << last_us << " us");
  CHECK(last_us <= 10 * first_us + 50'000);
}

TEST_CASE("rails of the server are used by the network, not by their place") {
  World::Shape shape;
  shape.asking = {1, 2, 3};
  shape.serving = {3, 1, 2};
  World world(shape);
  world.reach();
  world.until_open(3);
  for (const auto& link : world.requester.one.links) {
    const FakeQueuePair& near = pair_of(*link);
    CHECK(near.far->gid[14] == near.address().gid[14]);
  }
}

TEST_CASE("a queue pair that an agent ends is ended at the other end, and made anew") {
  for (const bool ends_at_requester : {true, false}) {
    CAPTURE(ends_at_requester);
    World world;
    world.reach();
    world.until_open(2);
    End& end = ends_at_requester ? world.requester : world.server;
    Agent& agent = ends_at_requester ? world.requester.one : world.server.two;
    const End& other = ends_at_requester ? world.server : world.requester;
    agent.lose(1, LinkLoss::silent);
    end.links->deliver();
    CHECK(end.counted("lost_silent") == 1);
    if (ends_at_requester) {
      CHECK(world.view().open == 1);
      CHECK(world.view().trouble == "the peer did not answer in time");
    }
    world.until([&] { return other.one.dropped + other.two.dropped == 1; });
    world.until_open(2);
    check_that_all_are_connected(world);
    CHECK(world.requester.made() == 3);
    CHECK(world.server.made() == 3);
    CHECK(world.view().trouble.empty());
    // Those that are over are no more.
    world.until([&] { return world.requester.live() == 2 && world.server.live() == 2; });
  }
}

TEST_CASE("a daemon that is gone takes its queue pairs along") {
  World world;
  world.reach();
  world.until_open(2);
  world.listener.reset();
  world.server.links->stop();
  world.until([&] { return world.requester.one.dropped == 2; });
  CHECK(world.requester.counted("lost_closed") == 2);
  CHECK(world.view().open == 0);
  CHECK(world.view().trouble == "the peer closed the connection");
  world.until_trouble("store-1");  // of a dial that failed
  CHECK(world.requester.links->has_links(kServer));
}

TEST_CASE("a server whose memory is not registered yet is asked until it is") {
  World world;
  world.server.pool_keys = transport::KeysFound::later;
  world.reach();
  world.until_trouble(std::string(refusal_text(QueuePairRefusal::not_ready)));
  CHECK(world.server.made() == 0);
  CHECK(world.server.counted("refused") > 0);
  CHECK(world.requester.held() == 0);
  // It is nobody's trouble: nothing is said of it.
  CHECK(world.server.told().empty());
  CHECK(world.requester.told().empty());
  world.server.pool_keys = transport::KeysFound::all;
  world.until_open(2);
  check_that_all_are_connected(world);
}

TEST_CASE("a server whose memory could not be registered says so, and both ends know it") {
  World world;
  world.server.pool_keys = transport::KeysFound::failed;
  world.reach();
  world.until_trouble(std::string(refusal_text(QueuePairRefusal::not_registered)));
  const std::string why(refusal_text(QueuePairRefusal::not_registered));
  // An entry, and so a line of the log, for all offers: at the server for each of its ports.
  world.until([&] { return world.requester.told()["no RDMA with storage/store-1: " + why] >= 4; });
  CHECK(world.requester.told().size() == 1);
  const auto at_server = world.server.told();
  CHECK(at_server.size() == 2);
  for (const std::string port : {"rail-1/1", "rail-2/1"}) {
    const std::string words =
        ": other daemons are refused, because the pool could not be registered with it";
    CHECK(at_server.count(port + words) == 1);
  }
  CHECK(world.server.made() == 0);
  world.server.pool_keys = transport::KeysFound::all;
  world.until_open(2);
  CHECK(world.view().trouble.empty());
}

TEST_CASE("ports of another kind of link are not reached, and that is said") {
  World::Shape shape;
  shape.is_server_ethernet = false;
  World world(shape);
  world.reach();
  world.until_trouble(std::string(refusal_text(QueuePairRefusal::no_rail)));
  CHECK(world.server.made() == 0);
  CHECK(world.view().connections == 2);
  CHECK(world.view().open == 0);
}

TEST_CASE("what a device refuses is said, and tried again") {
  World world;
  const auto try_with = [&](std::atomic<bool>& knob, const std::string& trouble) {
    knob = true;
    world.reach();
    world.until_trouble(trouble);
    knob = false;
    world.until_open(2);
    check_that_all_are_connected(world);
    world.requester.links->leave(kServer);
    world.until([&] { return world.requester.live() == 0 && world.server.live() == 0; });
  };
  try_with(world.server.rails[0]->knobs.takes_no_more,
           std::string(refusal_text(QueuePairRefusal::no_room)));
  try_with(world.server.rails[1]->knobs.refuses_to_connect,
           std::string(refusal_text(QueuePairRefusal::failed)));
  try_with(world.requester.rails[0]->knobs.takes_no_more, "this port is full");
  try_with(world.requester.rails[1]->knobs.refuses_to_connect, "this port connects to nobody");
}

TEST_CASE("rails of one network are connected place by place, and by another one after a silence") {
  World::Shape shape;
  shape.asking = shape.serving = {1, 1, 1, 1};
  World world(shape);
  for (End* end : {&world.requester, &world.server}) {
    end->daemon.self.features = cluster::kFeatureRailPlaces;
    // Their ports have one address: only numbers tell their queue pairs apart.
    for (std::size_t i = 0; i < 4; ++i) end->rails[i]->knobs.made = static_cast<unsigned>(100 * i);
  }
  for (const std::size_t agent : {0U, 1U}) {
    world.reach(0, agent);
    world.reach(1, agent);
  }
  world.until_open(16);
  check_that_all_are_connected(world);  // rail by rail
  const std::size_t rail = world.requester.one.links[0]->rail;
  const auto servers_on = [&](std::size_t at) {
    std::size_t count = 0;
    for (const Agent* agent : {&world.server.one, &world.server.two}) {
      for (const auto& link : agent->links) count += link->rail == at ? 1U : 0U;
    }
    return count;
  };
  world.requester.one.lose(0, LinkLoss::silent);
  world.until([&] { return world.server.one.dropped + world.server.two.dropped == 1; });
  world.until_open(16);
  CHECK(servers_on(rail) == 3);
  CHECK(servers_on((rail + 1) % 4) == 5);
}

TEST_CASE("an agent without room for all rails reaches every shard over some") {
  World::Shape shape;
  shape.room = 4;
  World world(shape);
  world.reach(0, 0);
  world.reach(1, 0);
  world.until_open(4);
  // A third shard, of another peer: each is reached over one rail, and both rails are used.
  world.requester.links->reach(kOther, world.member(), 0, 0);
  world.until([&] { return world.requester.one.dropped == 2; });
  world.until([&] { return world.requester.held() == 3 && world.server.held() == 3; });
  std::set<std::size_t> rails;
  std::set<std::pair<std::uint32_t, std::uint16_t>> shards;
  for (const auto& link : world.requester.one.links) {
    rails.insert(link->rail);
    shards.insert({link->peer.value, link->shard});
  }
  CHECK(rails.size() == 2);
  CHECK(shards.size() == 3);
  CHECK(world.requester.one.links.size() == 3);
  // When there is room again, all rails are.
  world.requester.links->leave(kOther);
  world.until_open(4);
  check_that_all_are_connected(world);
}

TEST_CASE("a server that is full takes a place from the daemon that has most") {
  World::Shape shape;
  shape.room = 4;
  shape.asking = {1, 2, 1, 2};
  World world(shape);
  world.reach(1, 0);
  world.until_open(4);
  End late(world.io, "node-2", 3, true, {1, 2, 1, 2}, true, 64, 5 * base::kNsPerSecond, 4);
  late.links->reach(kServer, world.member(), 1, 0);
  world.until([&] {
    late.turn();
    return late.held() == 2 && world.requester.held() == 2 && world.server.held() == 4;
  });
  CHECK(world.server.counted("made_room") == 2);
  CHECK(world.requester.counted("lost_closed") == 2);
  // Both go on asking, and nothing moves any more.
  const std::uint64_t refused = world.server.counted("refused");
  world.until([&] {
    late.turn();
    return world.server.counted("refused") >= refused + 20;
  });
  CHECK(late.held() == 2);
  CHECK(world.requester.held() == 2);
  CHECK(world.server.counted("made_room") == 2);
  // Who has some of what it wants is in no trouble.
  CHECK(late.told().empty());
  CHECK(world.requester.told().empty());
  late.links->leave(kServer);
  world.until([&] {
    late.turn();
    return world.requester.held() == 4 && late.held() == 0;
  });
}

TEST_CASE("who is refused for want of room does not ask again before the time that it shall wait") {
  World::Shape shape;
  shape.room = 4;
  World world(shape);
  world.reach(1, 0);
  world.until_open(2);
  // Four rails, and two places are left.
  End late(world.io, "node-2", 3, true, {1, 2, 1, 2}, true, 64, 5 * base::kNsPerSecond, 4,
           3600 * base::kNsPerSecond);
  late.links->reach(kServer, world.member(), 1, 0);
  world.until([&] {
    late.turn();
    return late.held() == 2 && world.server.counted("refused") >= 2;
  });
  // By the clock, because nothing shall come. Without the wait there are ten refusals in this time.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  world.until([&] {
    late.turn();
    return std::chrono::steady_clock::now() >= end;
  });
  CHECK(world.server.counted("refused") == 2);
  CHECK(late.held() == 2);
}

TEST_CASE("a peer that leaves has no queue pairs any more, at either end") {
  World world;
  world.reach(0, 0);
  world.reach(1, 1);
  world.until_open(4);
  world.requester.links->leave(base::PeerId{8});
  CHECK(world.view().open == 4);
  world.requester.links->leave(kServer);
  // Until the agents have fenced them.
  CHECK(world.requester.links->has_links(kServer));
  world.until([&] { return !world.requester.links->has_links(kServer); });
  CHECK(world.requester.one.dropped + world.requester.two.dropped == 4);
  world.until([&] { return world.server.held() == 0 && world.server.links->requesters().empty(); });
  world.until([&] { return world.requester.live() == 0 && world.server.live() == 0; });
  CHECK(world.requester.made() == 4);  // none anew
}

TEST_CASE("a peer that leaves while its agent's mailbox is full is dropped when there is room") {
  World::Shape shape;
  shape.capacity = 2;
  World world(shape);
  world.reach();
  world.until([&] { return world.view().open == 2; }, false);
  CHECK(world.requester.held() == 0);
  world.requester.links->leave(kServer);
  CHECK(world.requester.links->has_links(kServer));
  world.until([&] { return !world.requester.links->has_links(kServer); });
  CHECK(world.requester.one.dropped == 2);
  world.until([&] { return world.requester.live() == 0 && world.server.live() == 0; });
}

TEST_CASE("a peer that comes back while its last queue pairs end is reached again") {
  World world;
  world.reach();
  world.until_open(2);
  world.requester.links->leave(kServer);
  world.reach();
  world.until([&] { return world.requester.one.dropped == 2 && world.requester.held() == 2; });
  world.until_open(2);
  check_that_all_are_connected(world);
  CHECK(world.requester.made() == 4);
}

TEST_CASE("a peer may leave at any moment of connecting") {
  for (std::size_t turns = 0; turns < 12; ++turns) {
    CAPTURE(turns);
    World world;
    world.reach();
    std::size_t turn = 0;
    world.until([&] { return turn++ == turns; });
    world.requester.links->leave(kServer);
    world.until([&] { return !world.requester.links->has_links(kServer); });
    world.until([&] { return world.requester.live() == 0 && world.server.live() == 0; });
    CHECK(world.requester.held() == 0);
    CHECK(world.server.held() == 0);
  }
}

TEST_CASE("an agent whose mailbox is full gets its queue pair later") {
  World::Shape shape;
  shape.capacity = 2;
  shape.asking = {1, 2, 3};
  shape.serving = {1, 2, 3};
  World world(shape);
  world.reach();
  world.until([&] { return !world.view().trouble.empty(); }, false);
  CHECK(world.view().open == 2);
  CHECK(world.view().trouble == "the data agent takes no more connections now");
  world.until_open(3);
  check_that_all_are_connected(world);
}

TEST_CASE("a daemon without rails reaches nobody, and refuses whom reaches it") {
  World::Shape shape;
  shape.serving = {};
  World world(shape);
  CHECK_FALSE(world.server.links->is_used());
  world.server.links->reach(kServer, world.member(), 0, 0);
  CHECK_FALSE(world.server.links->has_links(kServer));
  world.reach();
  world.until_trouble("the peer hung up");
  CHECK(world.server.counted("refused") > 0);
  CHECK(world.server.links->requesters().empty());
}

TEST_CASE("queue pairs that are being made when a daemon stops end before its ports do") {
  for (const bool is_server : {false, true}) {
    World world;
    world.reach();
    End& end = is_server ? world.server : world.requester;
    world.until([&] { return end.made() > 0; }, false);
    for (Agent* agent : {&end.one, &end.two}) {
      agent->turn();
      agent->links.clear();
    }
    end.links.reset();
    CHECK(end.live() == 0);
    if (is_server) world.listener.reset();
    if (!is_server) world.server.links.reset();
    // What was on its way to the control thread does nothing.
    world.io.restart();
    world.io.poll();
    CHECK(end.live() == 0);
    end.links = std::make_unique<control::QueuePairLinks>(*end.daemon.access, end.daemon.log,
                                                          control::QueuePairSetup{});
  }
}

// ---- peers that say something else ----

// One that speaks to a daemon as a daemon would, up to its messages.
struct Stranger : control::ClusterChannelEvents {
  void on_message(control::ClusterChannel&, std::span<const std::byte> payload) override {
    heard.emplace_back(payload.begin(), payload.end());
  }
  void on_closed(control::ClusterChannel&, const Error&) override { is_closed = true; }
  void open(control::ClusterAccess& access, Arrived end) {
    channel =
        std::make_unique<control::ClusterChannel>(access, std::move(end.socket), end.result, *this);
  }
  std::unique_ptr<control::ClusterChannel> channel;
  std::vector<Bytes> heard;
  bool is_closed = false;
};

// Reaches the server of that world.
struct DialledStranger : Stranger {
  explicit DialledStranger(World& world) {
    Dialling dialling;
    control::ClusterDialer dialer(
        *world.requester.daemon.access,
        {"a stranger",
         world.listener->address().text(),
         {cluster::HelloPurpose::queue_pair, world.server.daemon.self.incarnation, 1, 5}},
        dialling);
    dialer.start();
    world.until([&] { return !dialling.arrived.empty(); });
    open(*world.requester.daemon.access, std::move(dialling.arrived.at(0)));
  }
};

transport::QueuePairAddress offered() {
  transport::QueuePairAddress address = FakeRail(2, 9).address();
  address.number = 77;
  return address;
}

TEST_CASE("what is no offer ends its connection, and no other one") {
  World world;
  world.reach();
  world.until_open(2);
  auto wrong = control::encode_offer({offered(), {}});
  wrong[0] ^= std::byte{1};
  for (const Bytes& garbage : {text("hello"), Bytes(wrong.begin(), wrong.end())}) {
    DialledStranger stranger(world);
    REQUIRE(stranger.channel->send(garbage) == Status::ok);
    world.until([&] { return stranger.is_closed; });
    CHECK(stranger.heard.empty());
  }
  CHECK(world.server.made() == 2);
  CHECK(world.server.held() == 2);
}

TEST_CASE("an offer is answered, and whatever follows it ends the queue pair") {
  World world;
  DialledStranger stranger(world);
  REQUIRE(stranger.channel->send(control::encode_offer({offered(), {}})) == Status::ok);
  world.until([&] { return !stranger.heard.empty() && world.server.held() == 1; });
  const auto answer = control::decode_answer(stranger.heard.at(0));
  REQUIRE(answer.has_value());
  const FakeQueuePair& made = pair_of(*world.server.two.links.at(0));
  CHECK(answer->address == made.address());
  CHECK(made.far == offered());
  REQUIRE(stranger.channel->send(control::encode_offer({offered(), {}})) == Status::ok);
  world.until([&] { return stranger.is_closed; });
  world.until([&] { return world.server.live() == 0; });
  CHECK(world.server.two.dropped == 1);
}

TEST_CASE("who was refused and does not hang up is hung up on") {
  World::Shape shape;
  shape.server_patience_ns = 50 * base::kNsPerMs;
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    World world(shape);
    // Refused at once, and after the device had its say.
    if (!is_known) world.server.pool_keys = transport::KeysFound::later;
    world.server.rails[1]->knobs.refuses_to_connect = is_known;
    DialledStranger stranger(world);
    REQUIRE(stranger.channel->send(control::encode_offer({offered(), {}})) == Status::ok);
    world.until([&] { return stranger.heard.size() == 1; });
    const auto answer = control::decode_answer(stranger.heard.at(0));
    REQUIRE(answer.has_value());
    CHECK(answer->refusal == (is_known ? QueuePairRefusal::failed : QueuePairRefusal::not_ready));
    world.until([&] { return stranger.is_closed; });
    CHECK(world.server.held() == 0);
  }
}

TEST_CASE("what is no answer, or comes too early, ends its connection, and is dialled again") {
  World world;
  Accepting accepting;
  world.listen(accepting);
  world.reach();
  for (const bool is_early : {false, true}) {
    CAPTURE(is_early);
    accepting.arrived.clear();
    world.until([&] { return !accepting.arrived.empty(); });
    Stranger stranger;
    stranger.open(*world.server.daemon.access, std::move(accepting.arrived.at(0)));
    if (!is_early) world.until([&] { return stranger.heard.size() == 1; });
    REQUIRE(stranger.channel->send(control::encode_offer({offered(), {}})) == Status::ok);
    world.until([&] { return stranger.is_closed; });
    CHECK(world.view().open == 0);
  }
  CHECK(world.requester.held() == 0);
}

}  // namespace queue_pair_links_test
