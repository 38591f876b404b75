// Queue pairs over ports that come and go, change their addresses, or are slow.
#include <doctest/doctest.h>

#include <atomic>
#include <string>

#include "tests/unit/daemon/peers/queue_pair_ends.h"

namespace queue_pair_rails_test {

using namespace queue_pair_ends;
using control::QueuePairRefusal;
using transport::RailState;

TEST_CASE("an address of a port that changed since the start is the one that is told") {
  World::Shape shape;
  shape.asking = shape.serving = {1, 128};
  World world(shape);
  world.reach();
  world.until_open(2);
  // Both ends of a rail move to another network, where the server finds the likeness it knows.
  world.requester.rails[0]->knobs.network = 3;
  world.server.rails[0]->knobs.network = 3;
  const std::size_t at = world.requester.one.links[0]->rail == 0 ? 0 : 1;
  world.requester.one.lose(at, LinkLoss::silent);
  world.requester.links->deliver();
  world.until([&] { return world.server.two.dropped == 1; });
  world.until_open(2);
  check_that_all_are_connected(world);
  for (const Agent* agent : {&world.requester.one, &world.server.two}) {
    for (const auto& link : agent->links) {
      const int network = link->rail == 0 ? 3 : 128;
      CHECK(pair_of(*link).address().gid[14] == network);
      CHECK(pair_of(*link).far->gid[14] == network);
    }
  }
}

TEST_CASE("a port whose link is down connects nobody, and is asked until it is up") {
  World world;
  world.requester.rails[0]->knobs.is_down = true;
  world.reach();
  world.until_trouble("rail-1: its link is down");
  world.until_open(1);
  world.requester.rails[0]->knobs.is_down = false;
  world.until_open(2);
  check_that_all_are_connected(world);
}

TEST_CASE("a rail that opens later is connected then, and one whose device goes is given up") {
  World::Shape shape;
  shape.asking = shape.serving = {1, 2, 3};
  World world(shape);
  fake_rail::Knobs& rail = world.requester.rails[1]->knobs;
  rail.state = RailState::waiting;
  world.requester.turn();
  world.reach();
  world.until_open(2);
  CHECK(world.view().connections == 2);
  CHECK(rail.made == 0);
  rail.state = RailState::open;
  world.until_open(3);
  check_that_all_are_connected(world);
  // Whatever is connected may survive a link that is down, and is not connected anew before its
  // end.
  rail.state = RailState::down;
  world.requester.turn();
  CHECK(world.requester.held() == 3);
  for (std::size_t at = 0; at < 3; ++at) {
    if (world.requester.one.links[at]->rail == 1) {
      world.requester.one.lose(at, LinkLoss::silent);
      break;
    }
  }
  world.until_open(2);
  CHECK(world.view().connections == 2);
  CHECK(rail.made == 1);
  // The links that worked are the same all the time.
  CHECK(world.requester.rails[0]->knobs.made == 1);
  CHECK(world.requester.rails[2]->knobs.made == 1);
  rail.state = RailState::open;
  world.until_open(3);
  rail.state = RailState::ending;
  world.until([&] { return rail.live == 0; });
  world.until_open(2);
  rail.state = RailState::open;
  world.until_open(3);
  check_that_all_are_connected(world);
  CHECK(rail.made == 3);
}

TEST_CASE("a server connects over the rails that it has, and says that it may have some later") {
  World world;
  world.reach();
  world.until_open(2);
  fake_rail::Knobs& rail = world.server.rails[0]->knobs;
  rail.state = RailState::ending;
  world.until([&] { return rail.live == 0; });
  world.until_open(2);  // over the other one
  CHECK(rail.live == 0);
  world.server.rails[1]->knobs.state = RailState::ending;
  world.until_trouble(std::string(refusal_text(QueuePairRefusal::not_ready)));
  world.until([&] { return world.server.live() == 0; });
  rail.state = RailState::open;
  world.until_open(2);
  CHECK(rail.live == 2);
  // Only while it is being connected, too.
  rail.hangs = true;
  world.requester.one.lose(0, LinkLoss::silent);
  world.until([&] { return rail.waiting == 1; });
  rail.state = RailState::ending;
  world.server.rails[1]->knobs.state = RailState::open;
  world.until_open(2);
  rail.hangs = false;
  world.until([&] { return rail.live == 0; });
}

TEST_CASE("a port from where no other end was heard twice is left alone, others go on") {
  World world;
  world.reach();
  world.until_open(2);
  const auto lose = [&](std::size_t rail, bool was_heard, LinkLoss cause) {
    Agent& agent = world.requester.one;
    const auto at = std::find_if(agent.links.begin(), agent.links.end(),
                                 [rail](const auto& link) { return link->rail == rail; });
    REQUIRE(at != agent.links.end());
    (*at)->was_heard = was_heard;
    const std::size_t gone = world.server.two.dropped + 1;
    agent.lose(static_cast<std::size_t>(at - agent.links.begin()), cause);
    world.until([&] { return world.server.two.dropped == gone; });
  };
  // Whose other end was heard in between is asked again at once.
  for (const bool was_heard : {false, true, false}) {
    lose(0, was_heard, LinkLoss::silent);
    world.until_open(2);
  }
  lose(0, false, LinkLoss::silent);
  const std::string trouble =
      "nothing comes back from there over " + world.requester.rails[0]->info().device + "/1";
  world.until_trouble(trouble);
  CHECK(world.requester.told().size() == 1);
  // Much longer than all others wait.
  for (int round = 0; round < 3; ++round) {
    lose(1, true, LinkLoss::io_error);
    world.until_open(1);
  }
  CHECK(world.requester.one.links.front()->rail == 1);
  CHECK(world.view().trouble.find(trouble) == 0);
}

TEST_CASE("a port that takes long to connect keeps no other one waiting") {
  for (const bool is_server : {false, true}) {
    CAPTURE(is_server);
    World world;
    fake_rail::Knobs& sick = (is_server ? world.server : world.requester).rails[0]->knobs;
    sick.hangs = true;
    world.reach(1, 0);
    world.until([&] { return sick.waiting == 1; });
    world.reach(0, 0);
    world.reach(0, 1);
    world.until([&] { return world.requester.held() == 3; });
    for (const Agent* agent : {&world.requester.one, &world.requester.two}) {
      for (const auto& link : agent->links) CHECK(link->rail == 1);
    }
    sick.hangs = false;
    world.until_open(6);
    check_that_all_are_connected(world);
  }
}

TEST_CASE("what waits for a slow port and is not wanted any more is not made") {
  World::Shape shape;
  shape.asking = shape.serving = {1};
  World world(shape);
  fake_rail::Knobs& slow = world.requester.rails[0]->knobs;
  slow.hangs = true;
  world.reach(1, 0);
  world.until([&] { return slow.waiting == 1; });
  world.reach(0, 1);
  world.reach(1, 1);
  world.until([&] { return world.server.accepted == 3; });
  for (int i = 0; i < 100; ++i) world.io.poll();  // their turn comes after the one that hangs
  world.requester.links->leave(kServer);
  slow.hangs = false;
  world.until([&] { return world.requester.live() == 0; });
  CHECK(world.requester.made() == 1);
}

}  // namespace queue_pair_rails_test
