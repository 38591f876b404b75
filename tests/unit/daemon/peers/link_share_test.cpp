#include "daemon/peers/link_share.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "daemon/base/random.h"

namespace link_share_test {

using simm::control::share_links;

TEST_CASE("link share: all that is wanted while it fits") {
  CHECK(share_links({}, 10) == 10);
  CHECK(share_links({8, 2}, 10) == 8);
  CHECK(share_links(std::vector<std::size_t>(64, 8), 1024) == 8);
}

TEST_CASE("link share: who wants less than its part has all, the others share what is left") {
  CHECK(share_links({128}, 10) == 10);
  CHECK(share_links({4, 128}, 10) == 6);
  CHECK(share_links({128, 4, 4}, 12) == 4);
  CHECK(share_links({100, 100, 1}, 11) == 5);
  CHECK(share_links({5, 5, 5}, 2) == 1);  // more peers than places: one each, for some
}

TEST_CASE("link share: never more than the room, and no place is left that one more could have") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    simm::base::SeededRandom random(seed);
    const std::size_t room = 20 + random.below(500);
    std::vector<std::size_t> wanted(1 + random.below(20));
    for (std::size_t& one : wanted) one = 1 + random.below(100);
    const std::size_t most = share_links(wanted, room);
    std::size_t used = 0;
    std::size_t unserved = 0;
    for (const std::size_t one : wanted) {
      used += std::min(one, most);
      unserved += one > most ? 1U : 0U;
    }
    CHECK(used <= room);
    if (unserved > 0) CHECK(room - used < unserved);
  }
}

}  // namespace link_share_test
