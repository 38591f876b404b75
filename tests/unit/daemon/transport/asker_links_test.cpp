// What an asker says of its links, and when it owes it.
#include "daemon/transport/asker_links.h"

#include <doctest/doctest.h>

#include <set>

namespace asker_links_test {

using namespace simm;
using namespace simm::transport;

constexpr Route kOne{base::PeerId{1}, 0};
constexpr Route kOtherShard{base::PeerId{1}, 1};

TEST_CASE("a new link owes a roster once, of all links of its route and no other") {
  AskerLinks links(8);
  const std::uint32_t first = links.open(kOne);
  const std::uint32_t second = links.open(kOne);
  const std::uint32_t other = links.open(kOtherShard);
  CHECK(links.owes(first));
  const LinkRoster one = links.say(first);
  const LinkRoster two = links.say(second);
  CHECK_FALSE(links.owes(first));
  CHECK(links.owes(other));
  CHECK(one.asker == two.asker);
  CHECK(one.asker != 0);
  CHECK(links.say(other).asker != one.asker);
  CHECK(one.statement < two.statement);
  REQUIRE(one.count == 2);
  CHECK(std::set{one.links[0], one.links[1]} == std::set{one.link, two.link});
  CHECK(AskerLinks(1).open(kOne) == 0);
}

TEST_CASE("a link that has ended is owed to the server over all others of its route") {
  AskerLinks links(8);
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
  AskerLinks few(2);
  CHECK(few.open(kOne) != AskerLinks::kNone);
  const std::uint32_t last = few.open(kOtherShard);
  CHECK(few.open(kOne) == AskerLinks::kNone);
  few.close(last);
  CHECK(few.open(kOne) == last);
  AskerLinks many(static_cast<std::uint32_t>(wire::kRosterLinksMax) + 2);
  for (std::size_t i = 0; i < wire::kRosterLinksMax; ++i) {
    REQUIRE(many.open(kOne) != AskerLinks::kNone);
  }
  CHECK(many.open(kOne) == AskerLinks::kNone);
  const std::uint32_t other = many.open(kOtherShard);
  CHECK(other != AskerLinks::kNone);
  CHECK(many.say(0).count == wire::kRosterLinksMax);
}

}  // namespace asker_links_test
