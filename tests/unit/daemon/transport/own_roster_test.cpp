// What a requester says of its links, and when it owes it.
#include "daemon/transport/own_roster.h"

#include <doctest/doctest.h>

#include <set>

namespace own_roster_test {

using namespace simm;
using namespace simm::transport;

constexpr Route kOne{base::PeerId{1}, 0};
constexpr Route kOtherShard{base::PeerId{1}, 1};

TEST_CASE("a new link owes a roster once, of all links of its route and no other") {
  OwnRoster links(8);
  const std::uint32_t first = links.open(kOne);
  const std::uint32_t second = links.open(kOne);
  const std::uint32_t other = links.open(kOtherShard);
  CHECK(links.owes(first));
  const LinkRoster one = links.say(first);
  const LinkRoster two = links.say(second);
  CHECK_FALSE(links.owes(first));
  CHECK(links.owes(other));
  CHECK(one.requester == two.requester);
  CHECK(one.requester != 0);
  CHECK(links.say(other).requester != one.requester);
  CHECK(one.statement < two.statement);
  REQUIRE(one.count == 2);
  CHECK(std::set{one.links[0], one.links[1]} == std::set{one.link, two.link});
  CHECK(OwnRoster(1).open(kOne) == 0);
}

TEST_CASE("a link that has ended is owed to the server over all others of its route") {
  OwnRoster links(8);
  const std::uint32_t gone = links.open(kOne);
  const std::uint32_t left = links.open(kOne);
  const std::uint32_t other = links.open(kOtherShard);
  const std::uint64_t number = links.say(gone).link;
  static_cast<void>(links.say(left));
  static_cast<void>(links.say(other));
  links.close(gone);
  CHECK(links.owes(left));
  CHECK_FALSE(links.owes(other));
  const LinkRoster said = links.say(left);
  REQUIRE(said.count == 1);
  CHECK(said.links[0] == said.link);
  // Its place is taken, its number is not.
  const std::uint32_t next = links.open(kOne);
  CHECK(next == gone);
  CHECK(links.say(next).link > number);
}

TEST_CASE("there are no more links than have room, and than one roster holds") {
  OwnRoster few(2);
  CHECK(few.open(kOne) != OwnRoster::kNone);
  const std::uint32_t last = few.open(kOtherShard);
  CHECK(few.open(kOne) == OwnRoster::kNone);
  few.close(last);
  CHECK(few.open(kOne) == last);
  OwnRoster many(static_cast<std::uint32_t>(wire::kRosterLinksMax) + 2);
  for (std::size_t i = 0; i < wire::kRosterLinksMax; ++i) {
    REQUIRE(many.open(kOne) != OwnRoster::kNone);
  }
  CHECK(many.open(kOne) == OwnRoster::kNone);
  const std::uint32_t other = many.open(kOtherShard);
  CHECK(other != OwnRoster::kNone);
  CHECK(many.say(0).count == wire::kRosterLinksMax);
}

}  // namespace own_roster_test
