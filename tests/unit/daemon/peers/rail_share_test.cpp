#include "daemon/peers/rail_share.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/base/random.h"

namespace rail_share_test {

using namespace simm::control;

TEST_CASE("rail share: all ports while they fit, and never more than the room") {
  for (const std::size_t room : {1U, 7U, 64U, 128U}) {
    for (std::size_t rails = 1; rails <= 16; ++rails) {
      for (std::size_t shards = 1; shards <= 200; ++shards) {
        const RailShare share = share_rails(shards, rails, room);
        CHECK(share.shards * share.rails <= room);
        CHECK(share.rails >= 1);
        CHECK(share.rails <= rails);
        CHECK(share.shards == std::min(shards, room));
        if (shards * rails <= room) CHECK(share.rails == rails);
        // Half of the room is used, unless nobody wants more.
        if (share.rails < rails) CHECK(share.shards * share.rails * 2 > room / 2);
      }
    }
  }
  CHECK(share_rails(16, 8, 128).rails == 8);
  CHECK(share_rails(17, 8, 128).rails == 4);
  CHECK(share_rails(64, 8, 128).rails == 2);
  CHECK(share_rails(65, 8, 128).rails == 1);
}

// Daemons that come one after the other, and of which each wants as much as it can get.
std::vector<std::size_t> settle(std::size_t daemons, std::size_t wanted, std::size_t room,
                                std::uint64_t seed) {
  simm::base::SeededRandom random(seed);
  std::vector<std::size_t> held;
  for (std::size_t round = 0; round < 40 * daemons; ++round) {
    if (held.size() < daemons && round % 10 == 0) held.push_back(0);
    const std::size_t asking = random.below(held.size());
    for (std::size_t i = 0; i < wanted && held[asking] < wanted; ++i) {
      Places places;
      places.room = room;
      places.own = held[asking];
      for (const std::size_t each : held) {
        places.taken += each;
        places.requesters += each > 0 ? 1U : 0U;
        places.most = std::max(places.most, each);
      }
      places.requesters += held[asking] == 0 ? 1U : 0U;
      const Admission admission = admit(places);
      if (admission == Admission::take) ++held[asking];
      if (admission == Admission::make_room) --*std::max_element(held.begin(), held.end());
    }
  }
  return held;
}

TEST_CASE("rail share: whoever comes last has as much as those before it") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    for (const std::size_t daemons : {1U, 8U, 9U, 40U, 128U}) {
      CAPTURE(daemons);
      const auto held = settle(daemons, 16, 128, seed);
      const auto [least, most] = std::minmax_element(held.begin(), held.end());
      const std::size_t part = std::min<std::size_t>(16, 128 / daemons);
      CHECK(*least >= part);
      CHECK(*most <= std::max<std::size_t>(part + 2, 16 * (daemons <= 8 ? 1 : 0)));
    }
  }
}

TEST_CASE("rail share: what does not change does not end queue pairs") {
  // Nine daemons, of which each has its part, go on asking.
  Places places{128, 126, 9, 14, 14};
  CHECK(admit(places) == Admission::refuse);
  places.own = 13;
  CHECK(admit(places) == Admission::take);
  places.taken = 128;
  places.most = 14;
  CHECK(admit(places) == Admission::refuse);
  places.most = 15;
  CHECK(admit(places) == Admission::make_room);
}

}  // namespace rail_share_test
