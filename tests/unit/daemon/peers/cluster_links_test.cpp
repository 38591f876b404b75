#include "daemon/peers/cluster_links.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "daemon/cluster/slot_map_builder.h"
#include "tests/unit/daemon/peers/cluster_net.h"

namespace cluster_links_test {

using namespace cluster_net;
using cluster::MapMember;
using transport::LinkLoss;
using transport::TcpLinkMailbox;

// A storage daemon with two shards, whose data connections end in a list.
struct Storage {
  Storage(boost::asio::io_context& io, const std::string& name, std::uint64_t number)
      : daemon(io, secret_of('s'), name, number, cluster::ClusterRole::storage) {
    listen("127.0.0.1:0");
  }
  void listen(const std::string& address) {
    listener = std::make_unique<control::ClusterListener>(*daemon.access, accepting);
    REQUIRE(listener->listen("cluster.listen", address).has_value());
    port = listener->address().port();
  }
  MapMember member() const {
    MapMember made;
    made.identity = {daemon.self.incarnation, daemon.self.role, daemon.self.name};
    made.address = "127.0.0.1";
    made.port = port;
    made.shards = 2;
    made.weight_bytes = 1u << 30;
    return made;
  }

  Daemon daemon;
  Accepting accepting;
  std::unique_ptr<control::ClusterListener> listener;
  std::uint16_t port = 0;
};

// What a data agent does with its end of the mailbox.
struct Agent {
  explicit Agent(std::size_t capacity) : mailbox(capacity) {}
  void turn() {
    report();
    mailbox.agent_take([this](transport::TcpLink link) { links.push_back(std::move(link)); },
                       [this](base::PeerId peer) {
                         while (std::optional<std::size_t> at = find(peer))
                           lose(*at, LinkLoss::dropped);
                       },
                       [this](std::uint64_t link) {
                         for (std::size_t i = 0; i < links.size(); ++i) {
                           if (links[i].link == link) return lose(i, LinkLoss::dropped);
                         }
                       },
                       [](void*) {});
  }
  std::optional<std::size_t> find(base::PeerId peer) const {
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i].peer == peer) return i;
    }
    return std::nullopt;
  }
  void lose(std::size_t at, LinkLoss cause) {
    const transport::TcpLink& link = links.at(at);
    lost.push_back({link.link, link.peer, link.shard, cause});
    links.erase(links.begin() + static_cast<std::ptrdiff_t>(at));
    report();
  }
  void report() {
    while (!lost.empty() && mailbox.agent_lost(lost.back())) lost.pop_back();
  }

  TcpLinkMailbox mailbox;
  std::vector<transport::TcpLink> links;
  std::vector<transport::LinkLost> lost;  // not reported yet
};

// A node with two data agents.
struct World {
  explicit World(std::size_t capacity = 64)
      : node(io, secret_of('s'), "node-1", 1, cluster::ClusterRole::node),
        one(capacity),
        two(capacity),
        incoming(capacity),
        queue_pairs(*node.access, node.log, {}),
        links(*node.access, {{&one.mailbox, &incoming}, {&two.mailbox, nullptr}}, 2, queue_pairs) {}

  Storage& add_storage(const std::string& name, std::uint64_t number) {
    storages.push_back(std::make_unique<Storage>(io, name, number));
    return *storages.back();
  }
  void use(const std::vector<MapMember>& members) {
    map = cluster::build_slot_map(map == nullptr ? 1 : map->epoch() + 1, members, map.get(),
                                  map.get())
              .value();
    links.use(*map);
  }
  // `agents_run`: the data agents have their turns.
  void until(const std::function<bool()>& done, bool agents_run = true) {
    poll_until(io, [&] {
      if (agents_run) one.turn();
      if (agents_run) two.turn();
      links.deliver();
      return done();
    });
  }
  std::size_t held() const { return one.links.size() + two.links.size(); }
  base::PeerId peer_of(const Storage& storage) const {
    return links.peers().find(storage.daemon.self.incarnation);
  }

  boost::asio::io_context io;
  Daemon node;
  Agent one;
  Agent two;
  TcpLinkMailbox incoming;
  control::QueuePairLinks queue_pairs;  // without rails
  control::ClusterLinks links;
  cluster::SlotMapPtr map;
  std::vector<std::unique_ptr<Storage>> storages;
};

TEST_CASE("connections to a peer that knows tags have keys, each its own") {
  for (const bool peer_has : {true, false}) {
    World world;
    Storage& a = world.add_storage("a", 2);
    world.node.self.features = cluster::kFeatureFrameTags;
    a.daemon.self.features = peer_has ? cluster::kFeatureFrameTags : 0;
    world.use({a.member()});
    world.until([&] { return world.held() == 8; });
    std::set<std::uint64_t> seeds;
    for (const Agent* agent : {&world.one, &world.two}) {
      for (const transport::TcpLink& link : agent->links) {
        CHECK(link.keys.send.is_set() == peer_has);
        CHECK(link.keys.receive.is_set() == peer_has);
        seeds.insert({link.keys.send.digest_seed, link.keys.receive.digest_seed});
      }
    }
    CHECK(seeds.size() == (peer_has ? 16 : 1));
  }
}

TEST_CASE("each agent gets its connections to every shard of every peer") {
  World world;
  const Storage& a = world.add_storage("a", 2);
  const Storage& b = world.add_storage("b", 3);
  CHECK_FALSE(world.links.is_reaching_out());
  world.use({a.member(), b.member()});
  CHECK(world.links.is_reaching_out());
  world.until([&] { return world.held() == 16; });
  CHECK(world.links.open_links() == 16);
  CHECK(world.links.reached(*world.map) == cluster::MemberSet{0b11});
  CHECK_FALSE(world.links.is_reaching_out());
  for (const Agent* agent : {&world.one, &world.two}) {
    std::map<std::pair<std::uint32_t, std::uint16_t>, int> seen;
    for (const transport::TcpLink& link : agent->links) ++seen[{link.peer.value, link.shard}];
    CHECK(seen.size() == 4);
    for (const auto& [route, count] : seen) CHECK(count == 2);
  }
  // The other ends are where the peer number says, and for the shard that it says.
  for (const Storage* storage : {&a, &b}) {
    std::map<std::uint64_t, std::uint16_t> there;
    for (const Arrived& end : storage->accepting.arrived) {
      there[end.result.request.link] = end.result.request.shard;
    }
    CHECK(there.size() == 8);
    for (const Agent* agent : {&world.one, &world.two}) {
      for (const transport::TcpLink& link : agent->links) {
        if (link.peer != world.peer_of(*storage)) continue;
        REQUIRE(there.count(link.link) == 1);
        CHECK(there.at(link.link) == link.shard);
      }
    }
  }
  // The same map again, under another epoch, changes nothing.
  world.use({a.member(), b.member()});
  world.until([&] { return world.links.leaving_peers() == 0; });
  CHECK(world.held() == 16);
  CHECK(a.accepting.arrived.size() == 8);
}

TEST_CASE("a lost connection is dialled again, and no other one") {
  World world;
  const Storage& a = world.add_storage("a", 2);
  world.use({a.member()});
  world.until([&] { return world.held() == 8; });
  std::set<std::uint64_t> before;
  for (const transport::TcpLink& link : world.one.links) before.insert(link.link);
  const transport::TcpLink& lost = world.one.links.at(1);
  const auto [peer, shard, id] = std::tuple(lost.peer, lost.shard, lost.link);
  world.one.lose(1, LinkLoss::silent);
  CHECK(world.one.mailbox.agent_take_news());
  CHECK_FALSE(world.one.mailbox.agent_take_news());
  world.links.deliver();
  CHECK(world.links.open_links() == 7);
  CHECK(world.links.report().find("did not answer in time") != std::string::npos);
  world.until([&] { return world.held() == 8; });
  CHECK(world.links.open_links() == 8);
  CHECK(a.accepting.arrived.size() == 9);
  const transport::TcpLink& again = world.one.links.back();
  CHECK(again.peer == peer);
  CHECK(again.shard == shard);
  CHECK(again.link == id);
  CHECK(world.node.counters.value("cluster.links.lost_silent") == 1);
}

TEST_CASE(
    "connections that are lost and come back are events of their peer, and not one for each") {
  World world;
  const Storage& a = world.add_storage("a", 2);
  world.use({a.member()});
  world.until([&] { return world.held() == 8; });
  const auto told = [&world] {
    std::string all;
    for (const base::Event& event : world.node.events.page(0).events) {
      if (event.kind == base::EventKind::error) continue;
      all += std::string(base::row_of(event.kind).name) + " " + event.subject + ";";
    }
    return all;
  };
  CHECK(told().empty());
  const std::size_t of_one = world.one.links.size();
  for (std::size_t i = 0; i < of_one; ++i) world.one.lose(0, LinkLoss::closed);
  world.links.deliver();
  const std::size_t of_two = world.two.links.size();
  for (std::size_t i = 0; i < of_two; ++i) world.two.lose(0, LinkLoss::closed);
  world.links.deliver();
  CHECK(world.links.open_links() == 0);
  CHECK(told() == "link_lost storage/a;peer_lost storage/a;");
  world.until([&] { return world.held() == 8; });
  CHECK(told() == "link_lost storage/a;peer_lost storage/a;peer_back storage/a;");
}

TEST_CASE("a peer that is not there yet is dialled until it is") {
  World world;
  Storage& a = world.add_storage("a", 2);
  const MapMember member = a.member();
  a.listener->stop();
  world.use({member});
  CHECK(world.links.is_reaching_out());
  world.until([&] { return world.node.counters.value("cluster.dialer.failed") >= 8; });
  CHECK_FALSE(world.links.is_reaching_out());  // it has tried: nothing to wait for
  CHECK(world.held() == 0);
  const auto report = nlohmann::json::parse(world.links.report());
  CHECK(report["peers"][0]["name"] == "storage/a");
  CHECK(report["peers"][0]["connections"] == 8);
  CHECK(report["peers"][0]["open"] == 0);
  CHECK(report["peers"][0]["trouble"].get<std::string>().find("storage/a: 127.0.0.1:") == 0);
  a.listen("127.0.0.1:" + std::to_string(member.port));
  world.until([&] { return world.held() == 8; });
  CHECK(nlohmann::json::parse(world.links.report())["peers"][0]["trouble"] == "");
  // The first connection that came through brought the others at once.
  CHECK(world.node.counters.value("cluster.links.returned") == 1);
}

TEST_CASE("a peer that has left keeps its number until nothing refers to it") {
  World world;
  const Storage& a = world.add_storage("a", 2);
  const Storage& b = world.add_storage("b", 3);
  world.use({a.member(), b.member()});
  world.until([&] { return world.held() == 16; });
  const base::PeerId old = world.peer_of(a);

  // a is restarted: another incarnation at the same place, while connections of the old one live.
  const Storage& successor = world.add_storage("a", 4);
  world.use({successor.member(), b.member()});
  CHECK(world.peer_of(successor) != old);
  CHECK(world.peer_of(successor) != world.peer_of(b));
  world.links.on_agents_use(world.map->epoch());
  CHECK(world.links.leaving_peers() == 1);
  world.until([&] { return world.held() == 16 && world.links.leaving_peers() == 0; });
  CHECK_FALSE(world.one.find(old).has_value());
  CHECK_FALSE(world.two.find(old).has_value());
  CHECK(world.node.counters.value("cluster.links.lost_dropped") == 8);

  // The number is free again, but not before the agents use a map without its last bearer.
  const base::PeerId leaving = world.peer_of(b);
  const Storage& third = world.add_storage("c", 5);
  world.use({successor.member(), third.member()});
  CHECK(world.peer_of(third) == old);
  world.until(
      [&] { return world.held() == 16 && !world.one.find(leaving) && !world.two.find(leaving); });
  CHECK(world.links.leaving_peers() == 1);
  world.links.on_agents_use(world.map->epoch() - 1);
  CHECK(world.links.leaving_peers() == 1);
  world.links.on_agents_use(world.map->epoch());
  CHECK(world.links.leaving_peers() == 0);
}

TEST_CASE("a full mailbox delays, and loses nothing") {
  World world(2);
  const Storage& a = world.add_storage("a", 2);
  world.use({a.member()});
  world.until([&] { return a.accepting.arrived.size() == 8; }, false);
  world.until([&] { return world.links.open_links() == 4; }, false);
  world.until([&] { return world.held() == 8; });
  CHECK(world.links.open_links() == 8);
  CHECK(a.accepting.arrived.size() == 8);

  // The agents are told of a peer that has left as soon as there is room: here two links to the
  // next one take it all.
  const Storage& b = world.add_storage("b", 3);
  world.use({a.member(), b.member()});
  world.until([&] { return world.links.open_links() == 12; }, false);
  world.use({b.member()});
  world.links.on_agents_use(world.map->epoch());
  const base::PeerId left_behind = world.one.links.front().peer;
  for (int i = 0; i < 20; ++i) world.links.deliver();
  CHECK(world.links.leaving_peers() == 1);
  world.until([&] { return world.links.leaving_peers() == 0 && world.held() == 8; });
  CHECK_FALSE(world.one.find(left_behind).has_value());
}

TEST_CASE("what others dialled goes to the shard that they name, or is closed") {
  World world;
  Net net;
  const auto arrive = [&](std::uint16_t shard) {
    auto [mine, theirs] = net.connect(Net::data_request(0));
    theirs.result.request.shard = shard;
    world.links.take(std::move(theirs.socket), theirs.result);
    return RawPeer(std::move(mine.socket));
  };
  std::vector<transport::TcpLink> got;
  RawPeer first = arrive(0);
  world.incoming.agent_take([&](transport::TcpLink link) { got.push_back(std::move(link)); },
                            [](base::PeerId) {}, [](std::uint64_t) {}, [](void*) {});
  REQUIRE(got.size() == 1);
  CHECK(got[0].shard == 0);
  CHECK_FALSE(first.is_over());
  const auto requesters = [&] { return nlohmann::json::parse(world.links.report())["askers"]; };
  CHECK(requesters()[0]["name"] == "node/node-1");
  CHECK(requesters()[0]["connections"] == 1);

  // Shard 1 serves nobody, and there is no shard 2.
  for (const std::uint16_t shard : {std::uint16_t{1}, std::uint16_t{2}}) {
    RawPeer refused = arrive(shard);
    net.until([&] { return refused.is_over(); });
  }
  CHECK(world.node.counters.value("cluster.links.refused") == 2);

  REQUIRE(world.incoming.agent_lost({got[0].link, got[0].peer, 0, LinkLoss::protocol}));
  world.links.deliver();
  CHECK(requesters().empty());
  CHECK(world.node.counters.value("cluster.links.lost_protocol") == 1);
}

TEST_CASE("places that are short are shared: a peer of many shards leaves the others theirs") {
  World world;
  for (Agent* agent : {&world.one, &world.two}) agent->mailbox.control_use({12});
  Storage& large = world.add_storage("large", 2);
  large.daemon.self.shards = 64;
  MapMember of_large = large.member();
  of_large.shards = 64;
  const Storage& small = world.add_storage("small", 3);
  const auto held_to = [&world](const Storage& storage) {
    std::size_t count = 0;
    for (const Agent* agent : {&world.one, &world.two}) {
      for (const transport::TcpLink& link : agent->links) {
        if (link.peer == world.peer_of(storage)) ++count;
      }
    }
    return count;
  };
  const auto reaches = [&world](const Storage& storage) {
    return world.links.reached(*world.map)->test(*world.map->find(storage.daemon.self.incarnation));
  };
  world.use({of_large});
  world.until([&] { return held_to(large) == 24; });
  CHECK_FALSE(reaches(large));  // most of its shards have no connection
  // Who comes later has all that it wants.
  world.use({of_large, small.member()});
  world.until([&] { return held_to(small) == 8 && held_to(large) == 16; });
  CHECK(reaches(small));
  CHECK_FALSE(reaches(large));
  const Storage& third = world.add_storage("third", 4);
  world.use({of_large, small.member(), third.member()});
  world.until([&] { return held_to(third) == 8 && held_to(large) == 8; });
  CHECK(held_to(small) == 8);
  CHECK(world.links.open_links() == 24);
  // And what is given back is used again.
  world.use({of_large, third.member()});
  world.until([&] { return held_to(large) == 16 && world.held() == 24; });
}

TEST_CASE("a peer is reached when each of its shards has a connection from each agent") {
  World world;
  const Storage& a = world.add_storage("a", 2);
  world.use({a.member()});
  world.until([&] { return world.held() == 8; });
  CHECK(world.links.reached(*world.map)->test(0));
  // Both connections of one agent to shard 1 are lost.
  for (std::size_t i = world.two.links.size(); i-- > 0;) {
    if (world.two.links[i].shard == 1) world.two.lose(i, LinkLoss::silent);
  }
  world.links.deliver();
  CHECK_FALSE(world.links.reached(*world.map)->test(0));
  world.until([&] { return world.held() == 8; });
  CHECK(world.links.reached(*world.map)->test(0));
}

TEST_CASE("a peer without room says so, is asked again seldom, and is shown with its reason") {
  World world;
  Storage& a = world.add_storage("a", 2);
  a.accepting.has_room = false;
  world.use({a.member()});
  world.until([&] { return world.node.counters.value("cluster.links.refused_by_peer") == 8; });
  CHECK_FALSE(world.links.is_reaching_out());
  const auto peer = nlohmann::json::parse(world.links.report())["peers"][0];
  CHECK(peer["refused"] == 8);
  CHECK(peer["open"] == 0);
  CHECK(peer["trouble"].get<std::string>().find("has no place for another connection") !=
        std::string::npos);
  CHECK(world.held() == 0);
  a.accepting.has_room = true;
  world.until([&] { return world.held() == 8; });
  CHECK(world.node.counters.value("cluster.links.refused_by_peer") == 8);
  CHECK(nlohmann::json::parse(world.links.report())["peers"][0]["refused"] == 0);
}

TEST_CASE("no daemon that asks has all places of a shard, and who has most makes room") {
  World world;
  Net net;
  world.incoming.control_use({8});
  std::vector<transport::TcpLink> got;
  std::vector<RawPeer> ends;
  std::uint64_t dropped = 0;
  const auto turn = [&] {
    world.incoming.agent_take([&](transport::TcpLink link) { got.push_back(std::move(link)); },
                              [](base::PeerId) {}, [&](std::uint64_t link) { dropped = link; },
                              [](void*) {});
  };
  const auto asks = [&](const std::string& name, std::uint64_t incarnation) {
    if (!world.links.has_room_for({{0, incarnation}, cluster::ClusterRole::node, name}, 0)) {
      return false;
    }
    auto [mine, theirs] = net.connect(Net::data_request(0));
    theirs.result.peer.name = name;
    theirs.result.peer.incarnation = {0, incarnation};
    world.links.take(std::move(theirs.socket), theirs.result);
    ends.emplace_back(std::move(mine.socket));
    turn();
    return true;
  };
  for (int i = 0; i < 20; ++i) (void)asks("greedy", 1);
  CHECK(got.size() == 6);  // a quarter stays free
  CHECK(asks("late", 2));
  CHECK(asks("later", 3));
  CHECK(got.size() == 8);
  CHECK_FALSE(asks("late", 2));
  turn();
  const auto ended =
      std::find_if(got.begin(), got.end(), [&](const auto& link) { return link.link == dropped; });
  REQUIRE(ended < got.begin() + 6);  // one of those that have most
  CHECK(world.node.counters.value("cluster.links.made_room") == 1);
  // Until the agent has ended it there is no place, and no other one is ended for that.
  CHECK_FALSE(asks("late", 2));
  REQUIRE(world.incoming.agent_lost({dropped, ended->peer, 0, LinkLoss::dropped}));
  world.links.deliver();
  CHECK(asks("late", 2));
  CHECK_FALSE(asks("greedy", 1));
}

TEST_CASE("what others dialled says whose it is, and of which life of that daemon") {
  World world;
  Net net;
  std::vector<transport::TcpLink> got;
  const auto arrive = [&](const std::string& name, std::uint64_t incarnation) {
    auto [mine, theirs] = net.connect(Net::data_request(0));
    theirs.result.peer.name = name;
    theirs.result.peer.incarnation = {0, incarnation};
    world.links.take(std::move(theirs.socket), theirs.result);
    world.incoming.agent_take([&](transport::TcpLink link) { got.push_back(std::move(link)); },
                              [](base::PeerId) {}, [](std::uint64_t) {}, [](void*) {});
    return got.back().owner;
  };
  const transport::LinkOwner first = arrive("n", 1);
  const transport::LinkOwner other = arrive("m", 2);
  const transport::LinkOwner successor = arrive("n", 3);
  REQUIRE(got.size() == 3);
  CHECK(first.life != 0);
  CHECK(other.daemon != first.daemon);
  CHECK(successor.daemon == first.daemon);
  CHECK(successor.life > first.life);
  CHECK(arrive("n", 3).life == successor.life);
}

TEST_CASE("an agent that asks nobody is given no connections") {
  World world;
  const Storage& a = world.add_storage("a", 2);
  control::ClusterLinks silent(*world.node.access, {{nullptr, &world.incoming}}, 2,
                               world.queue_pairs);
  const auto map = cluster::build_slot_map(1, {a.member()}, nullptr, nullptr).value();
  silent.use(*map);
  CHECK_FALSE(silent.is_reaching_out());
  CHECK(silent.peers().find(a.daemon.self.incarnation) != cluster::kNoPeer);
  silent.deliver();
  // Its number is free as soon as its agents have the next map.
  silent.use(*cluster::build_slot_map(2, {}, map.get(), map.get()).value());
  CHECK(silent.leaving_peers() == 1);
  silent.on_agents_use(2);
  CHECK(silent.leaving_peers() == 0);
}

TEST_CASE("after a stop nothing is dialled any more") {
  World world;
  const Storage& a = world.add_storage("a", 2);
  world.use({a.member()});
  world.until([&] { return world.held() == 8; });
  world.links.stop();
  world.one.lose(0, LinkLoss::closed);
  world.links.deliver();
  CHECK(world.links.open_links() == 7);
  for (int i = 0; i < 20; ++i) {
    world.io.restart();
    world.io.poll();
    ::usleep(5000);
  }
  CHECK(a.accepting.arrived.size() == 8);
}

}  // namespace cluster_links_test
