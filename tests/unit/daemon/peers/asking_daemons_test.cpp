// Which life of which daemon a link is of.
#include "daemon/peers/asking_daemons.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "daemon/base/manual_clock.h"

namespace asking_daemons_test {

using namespace simm;
using cluster::ClusterRole;
using control::AskingDaemons;

cluster::HelloResult daemon(const std::string& name, std::uint64_t incarnation,
                            ClusterRole role = ClusterRole::node, std::uint32_t process = 0) {
  cluster::HelloSelf self;
  self.process = process;
  cluster::HelloResult hello;
  hello.peer = {{7, incarnation}, role, name};
  hello.request.link = cluster::first_link_of(self) + 41;
  return hello;
}

TEST_CASE("asking daemons: one number for a name, and a later life for another incarnation") {
  base::ManualClock clock;
  base::ErrorLog errors(clock);
  AskingDaemons daemons(errors);
  const auto first = daemons.greet(daemon("n", 1));
  const auto second = daemons.greet(daemon("n", 1));
  const auto successor = daemons.greet(daemon("n", 2));
  const auto other = daemons.greet(daemon("m", 3));
  const auto namesake = daemons.greet(daemon("n", 4, ClusterRole::storage));
  REQUIRE((first && second && successor && other && namesake));
  CHECK(first->owner.life != 0);
  CHECK(second->owner.daemon == first->owner.daemon);
  CHECK(second->owner.life == first->owner.life);
  CHECK(successor->owner.daemon == first->owner.daemon);
  CHECK(successor->owner.life > first->owner.life);
  CHECK(other->owner.daemon != first->owner.daemon);
  CHECK(namesake->owner.daemon != first->owner.daemon);
  CHECK(namesake->owner.daemon != other->owner.daemon);
  CHECK(errors.entries().empty());
}

TEST_CASE("asking daemons: processes of one incarnation are different lives") {
  base::ManualClock clock;
  base::ErrorLog errors(clock);
  AskingDaemons daemons(errors);
  const auto first = daemons.greet(daemon("n", 1, ClusterRole::node, 5));
  const auto second = daemons.greet(daemon("n", 1, ClusterRole::node, 5));
  const auto successor = daemons.greet(daemon("n", 1, ClusterRole::node, 0xfffffe));
  REQUIRE((first && second && successor));
  CHECK(second->owner.life == first->owner.life);
  CHECK(successor->owner.daemon == first->owner.daemon);
  CHECK(successor->owner.life > first->owner.life);
}

TEST_CASE("asking daemons: as many as there are numbers, which those without links give back") {
  base::ManualClock clock;
  base::ErrorLog errors(clock);
  AskingDaemons daemons(errors);
  std::vector<AskingDaemons::Link> links;
  for (std::uint32_t i = 0; i < transport::kAskingDaemonsMax; ++i) {
    auto link = daemons.greet(daemon("n" + std::to_string(i), i + 1));
    REQUIRE(link.has_value());
    CHECK(link->owner.daemon < transport::kAskingDaemonsMax);
    links.push_back(std::move(*link));
  }
  CHECK_FALSE(daemons.greet(daemon("one-more", 1)).has_value());
  // Another link of one that is here needs no number.
  CHECK(daemons.greet(daemon("n5", 6))->owner.daemon == links[5].owner.daemon);
  const transport::LinkOwner gone = links[5].owner;
  links.erase(links.begin() + 5);
  const auto next = daemons.greet(daemon("one-more", 1));
  REQUIRE(next.has_value());
  CHECK(next->owner.daemon == gone.daemon);
  CHECK(next->owner.life > gone.life);
}

TEST_CASE("asking daemons: two that live and have one name are an error, a restart is none") {
  base::ManualClock clock;
  base::ErrorLog errors(clock);
  AskingDaemons daemons(errors);
  std::vector<AskingDaemons::Link> links;
  const auto hello = [&](std::uint64_t incarnation) {
    links.push_back(*daemons.greet(daemon("n", incarnation)));
    return links.back().owner.life;
  };
  // Restarts, while old links are still here, and a hello that comes late.
  for (std::uint64_t life = 1; life < 9; ++life) hello(life);
  hello(7);
  hello(8);
  CHECK(errors.entries().empty());
  std::uint64_t last = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t life = hello(i % 2 == 0 ? 7 : 8);
    CHECK(life > last);  // who comes last is served
    last = life;
  }
  const auto entries = errors.entries();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].text.find("two daemons are called node/n") == 0);
  CHECK(entries[0].text.find("cluster.node_name") != std::string::npos);
}

}  // namespace asking_daemons_test
