// The places of links: made by the control thread for links that there are.
#include <doctest/doctest.h>

#include <memory>
#include <set>

#include "daemon/transport/tcp/tcp_link.h"
#include "daemon/transport/transport.h"

namespace link_places_test {

using namespace simm;
using namespace simm::transport;

constexpr Route kRoute{base::PeerId{1}, 0};

// Counts what is made for a mailbox.
struct Maker {
  LinkPlaces places(std::uint32_t max) {
    return {max,
            [](void* shared) -> void* {
              Maker& self = *static_cast<Maker*>(shared);
              ++self.made;
              return new Place{&self};
            },
            [](void* place) {
              const std::unique_ptr<Place> gone(static_cast<Place*>(place));
              ++gone->maker->destroyed;
            },
            this};
  }
  struct Place {
    Maker* maker;
  };
  int made = 0;
  int destroyed = 0;
};

TEST_CASE("link places: as many as there were links at one time, never more than the maximum") {
  Maker maker;
  int grown = 0;
  std::set<void*> places;
  {
    TcpLinkMailbox mail(16);
    mail.control_use(maker.places(3));
    const auto turn = [&] {
      mail.agent_take([](TcpLink) {}, [](base::PeerId) {}, [](std::uint64_t) {},
                      [&](void* place) {
                        ++grown;
                        places.insert(place);
                      });
    };
    const auto open = [&](std::uint64_t number) {
      TcpLink link{{}, kRoute.peer, kRoute.shard, number};
      REQUIRE(mail.control_add(link));
      turn();
    };
    const auto lose = [&](std::uint64_t number) {
      REQUIRE(mail.agent_lost({number, kRoute.peer, kRoute.shard, LinkLoss::closed}));
      LinkLost lost;
      REQUIRE(mail.control_take_lost(lost));
    };
    open(1);
    CHECK(maker.made == 1);
    for (std::uint64_t number = 2; number < 10; ++number) {
      lose(number - 1);
      open(number);
    }
    CHECK(maker.made == 1);
    open(10);
    open(11);
    CHECK(maker.made == 3);
    open(12);  // whose it is the agent shall see all the same
    CHECK(maker.made == 3);
    CHECK(grown == 3);
    for (void* place : places) maker.places(0).destroy(place);
  }
  CHECK(maker.destroyed == 3);
}

TEST_CASE("link places: what found the mailbox full, or was not taken, is destroyed with it") {
  Maker maker;
  {
    TcpLinkMailbox mail(2);
    mail.control_use(maker.places(8));
    for (std::uint64_t number = 1; number < 6; ++number) {
      TcpLink link{{}, kRoute.peer, kRoute.shard, number};
      CHECK(mail.control_add(link) == (number < 3));
    }
    CHECK(maker.made == 3);
  }
  CHECK(maker.destroyed == 3);
}

}  // namespace link_places_test
