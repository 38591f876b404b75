// Daemons that connect queue pairs over real loopback connections, with rails that move nothing,
// and with data agents that the test plays. Thread: the test's.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/queue_pair_links.h"
#include "tests/support/fake_rail.h"
#include "tests/unit/daemon/peers/cluster_net.h"

namespace queue_pair_ends {

using namespace cluster_net;
using fake_rail::FakeQueuePair;
using fake_rail::FakeRail;
using transport::LinkLoss;
using transport::RdmaLink;
using transport::RdmaLinkMailbox;

// What a data agent does with one of its mailboxes.
struct Agent {
  explicit Agent(std::size_t capacity) : mailbox(capacity) {}
  void turn() {
    while (mailbox.agent_take(
        [this](std::unique_ptr<RdmaLink> link) { links.push_back(std::move(link)); },
        [](base::PeerId) { FAIL("links are dropped one by one"); },
        [this](std::uint64_t number) { drop(number); })) {
    }
  }
  void drop(std::uint64_t number) {
    for (std::size_t at = 0; at < links.size(); ++at) {
      if (links[at]->link != number) continue;
      ++dropped;
      return lose(at, LinkLoss::closed);
    }
  }
  void lose(std::size_t at, LinkLoss cause) {
    links.at(at)->loss = cause;
    REQUIRE(mailbox.agent_ended(links[at]));
    links.erase(links.begin() + static_cast<std::ptrdiff_t>(at));
  }

  RdmaLinkMailbox mailbox;
  std::vector<std::unique_ptr<RdmaLink>> links;
  std::size_t dropped = 0;
};

inline const FakeQueuePair& pair_of(const RdmaLink& link) {
  return dynamic_cast<const FakeQueuePair&>(*link.queue_pair);
}

// A daemon with two data agents, both of which ask or both of which serve.
struct End : control::ClusterListenerEvents {
  // `networks`: of its rails, one each.
  End(boost::asio::io_context& io, const std::string& name, std::uint8_t number, bool is_requester,
      const std::vector<std::uint8_t>& networks, bool is_ethernet = true, std::size_t capacity = 64,
      base::TimeNs patience_ns = 5 * base::kNsPerSecond, std::size_t room = 64,
      base::TimeNs room_wait_ns = 20 * base::kNsPerMs)
      : daemon(io, secret_of('s'), name, number,
               is_requester ? cluster::ClusterRole::node : cluster::ClusterRole::storage),
        one(capacity),
        two(capacity) {
    for (const std::uint8_t network : networks) {
      rails.push_back(std::make_unique<FakeRail>(network, number, is_ethernet));
    }
    control::QueuePairSetup setup;
    setup.pool_keys = [this](std::size_t) { return pool_keys; };
    setup.patience_ns = patience_ns;
    setup.room_wait_ns = room_wait_ns;
    setup.unheard_wait_ns = 3600 * base::kNsPerSecond;  // longer than any test
    for (Agent* agent : {&one, &two}) {
      control::AgentQueuePairs& pairs = setup.agents.emplace_back();
      pairs.room = room;
      if (rails.empty()) continue;
      (is_requester ? pairs.outgoing : pairs.incoming) = &agent->mailbox;
      for (auto& rail : rails) {
        ports.push_back(std::move(*rail->make_port(1024)));
        (is_requester ? pairs.asking : pairs.serving).push_back(ports.back().get());
      }
    }
    for (auto& rail : rails) setup.rails.push_back(rail.get());
    links = std::make_unique<control::QueuePairLinks>(*daemon.access, daemon.log, std::move(setup));
  }
  ~End() override = default;

  void on_accepted(ipc::UniqueFd socket, const cluster::HelloResult& hello) override {
    ++accepted;
    links->take(std::move(socket), hello, {});
  }
  void turn() {
    one.turn();
    two.turn();
    links->deliver();
  }
  std::size_t held() const { return one.links.size() + two.links.size(); }
  std::size_t live() const {
    std::size_t live = 0;
    for (const auto& rail : rails) live += rail->knobs.live;
    return live;
  }
  std::uint32_t made() const {
    std::uint32_t made = 0;
    for (const auto& rail : rails) made += rail->knobs.made;
    return made;
  }
  std::uint64_t counted(const std::string& name) {
    return daemon.counters.counter("cluster.queue_pairs." + name).value();
  }

  // What it says of queue pairs in its simmctl errors, and how often.
  std::map<std::string, std::uint64_t> told() const {
    std::map<std::string, std::uint64_t> told;
    for (const base::ErrorEntry& entry : daemon.errors.entries()) {
      if (entry.site == "cluster.queue_pair") told[entry.text] = entry.count;
    }
    return told;
  }

  transport::KeysFound pool_keys = transport::KeysFound::all;
  std::size_t accepted = 0;
  Daemon daemon;
  std::vector<std::unique_ptr<FakeRail>> rails;
  std::vector<std::unique_ptr<transport::RdmaPort>> ports;
  Agent one;
  Agent two;
  std::unique_ptr<control::QueuePairLinks> links;  // after all that it uses
};

inline constexpr base::PeerId kServer{7};
inline constexpr base::PeerId kOther{9};

// A node that asks a storage daemon.
struct World {
  struct Shape {
    std::vector<std::uint8_t> asking = {1, 2};
    std::vector<std::uint8_t> serving = {1, 2};
    bool is_server_ethernet = true;
    std::size_t capacity = 64;  // of the requester's mailboxes
    base::TimeNs server_patience_ns = 5 * base::kNsPerSecond;
    std::size_t room = 64;  // of each agent
  };
  World() : World(Shape{}) {}
  explicit World(const Shape& shape)
      : requester(io, "node-1", 1, true, shape.asking, true, shape.capacity, 5 * base::kNsPerSecond,
                  shape.room),
        server(io, "store-1", 2, false, shape.serving, shape.is_server_ethernet, 64,
               shape.server_patience_ns, shape.room) {
    listen(server);
  }
  void listen(control::ClusterListenerEvents& events) {
    listener = std::make_unique<control::ClusterListener>(*server.daemon.access, events);
    REQUIRE(listener->listen("cluster.listen", "127.0.0.1:0").has_value());
  }

  cluster::MapMember member() const {
    cluster::MapMember made;
    made.identity = {server.daemon.self.incarnation, server.daemon.self.role,
                     server.daemon.self.name};
    made.address = "127.0.0.1";
    made.port = listener->address().port();
    made.shards = 2;
    return made;
  }
  void reach(std::uint16_t shard = 1, std::size_t agent = 0) {
    requester.links->reach(kServer, member(), shard, agent);
  }
  // `agents_run`: the requester's data agents have their turns.
  void until(const std::function<bool()>& done, bool agents_run = true) {
    poll_until(io, [&] {
      if (agents_run) requester.turn();
      server.turn();
      return done();
    });
  }
  void until_open(std::size_t links) {
    until([&] { return requester.held() == links && server.held() == links; });
  }
  void until_trouble(const std::string& words) {
    until([&] { return view().trouble.find(words) != std::string::npos; });
  }
  control::QueuePairLinks::View view() const { return requester.links->views()[kServer.value]; }

  boost::asio::io_context io;
  End requester;
  End server;
  std::unique_ptr<control::ClusterListener> listener;
};

// Each of the requester's links has exactly one at the server, and both name each other.
inline void check_that_all_are_connected(const World& world) {
  std::set<const RdmaLink*> found;
  for (const Agent* asking : {&world.requester.one, &world.requester.two}) {
    for (const auto& link : asking->links) {
      const FakeQueuePair& near = pair_of(*link);
      REQUIRE(near.far.has_value());
      const Agent& serving = link->shard == 0 ? world.server.one : world.server.two;
      for (const auto& other : serving.links) {
        const FakeQueuePair& far = pair_of(*other);
        if (far.address() != *near.far || far.far != near.address()) continue;
        CHECK(found.insert(other.get()).second);
        // Rails of the same network.
        CHECK(far.address().gid[14] == near.address().gid[14]);
        CHECK(other->rail == link->rail);
        CHECK(other->shard == link->shard);
      }
      CHECK(link->peer == kServer);
    }
  }
  CHECK(found.size() == world.requester.held());
}

}  // namespace queue_pair_ends
