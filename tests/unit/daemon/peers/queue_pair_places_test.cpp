// Places for queue pairs: what is counted is what links have, whatever came and went.
#include "daemon/peers/queue_pair_places.h"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>

#include "daemon/base/random.h"

namespace queue_pair_places_test {

using namespace simm;
using control::Places;
using control::QueuePairPlaces;

TEST_CASE("places: each counts for who has it, or is to get it, until it is given back") {
  QueuePairPlaces places;
  std::array<QueuePairPlaces::Place, 12> links;
  std::array<std::string, 12> counted_for;
  base::SeededRandom random(5);
  const auto draw_name = [&] { return std::string(1, static_cast<char>('a' + random.below(4))); };
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t at = random.below(links.size());
    const std::string name = draw_name();
    if (!links[at].is_taken()) {
      links[at].take(places, name);
      counted_for[at] = name;
    } else if (links[at].is_kept_by(counted_for[at]) && random.below(2) == 0) {
      links[at].pass_to(name);
      counted_for[at] = name;
      CHECK_FALSE(links[at].is_kept_by(name));
    } else {
      links[at].give_back();
      counted_for[at].clear();
    }
    std::map<std::string, std::size_t> held;
    for (const std::string& one : counted_for) {
      if (!one.empty()) ++held[one];
    }
    const std::string asks = draw_name();
    std::string greediest;
    const Places found = places.found_by(asks, 100, greediest);
    std::size_t taken = 0;
    std::size_t most = 0;
    for (const auto& [holder, count] : held) {
      taken += count;
      most = std::max(most, count);
    }
    CHECK(found.room == 100);
    CHECK(found.taken == taken);
    CHECK(found.most == most);
    CHECK(found.own == (held.count(asks) > 0 ? held.at(asks) : 0));
    CHECK(found.requesters == held.size() + (held.count(asks) > 0 ? 0 : 1));
    if (most > 0) CHECK(held.at(greediest) == most);
  }
}

TEST_CASE("places: one that goes with its link is given back") {
  QueuePairPlaces places;
  std::string greediest;
  {
    QueuePairPlaces::Place place;
    place.take(places, "a");
    CHECK(places.found_by("b", 1, greediest).taken == 1);
  }
  CHECK(places.found_by("b", 1, greediest).taken == 0);
}

}  // namespace queue_pair_places_test
