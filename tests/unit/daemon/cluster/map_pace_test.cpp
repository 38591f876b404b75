// How often a manager makes a map: at once for the first changes, and seldom while daemons come and
// go without an end. What changes in between shares a map.
#include <doctest/doctest.h>

#include "tests/unit/daemon/cluster/manager_rig.h"

namespace map_pace_test {

using namespace manager_rig;

constexpr base::TimeNs kTurnNs = 10 * kNsPerMs;
// For who joins: the time to settle, and the turns in which messages travel.
constexpr base::TimeNs kSoonNs = 6 * kTurnNs;

struct Crowd {
  Crowd() {
    join();
    rig.run(5 * kNsPerSecond);  // the first map has its own wait, and the bucket is full again
    REQUIRE(rig.epoch() == 1);
  }
  Daemon& join() {
    ++count;
    return rig.add("d" + std::to_string(count), count);
  }

  Rig rig;
  std::uint64_t count = 0;
};

TEST_CASE("the first changes wait for no other map") {
  Crowd crowd;
  for (base::Epoch epoch = 2; epoch <= 5; ++epoch) {
    const Daemon& joined = crowd.join();
    crowd.rig.run(kSoonNs);
    CHECK(crowd.rig.epoch() == epoch);
    CHECK(crowd.rig.slots_of(joined) > 0);
  }
  // Four are a burst. After a rest of two seconds the next four are as fast.
  crowd.rig.run(2 * kNsPerSecond);
  for (base::Epoch epoch = 6; epoch <= 9; ++epoch) {
    crowd.join();
    crowd.rig.run(kSoonNs);
    CHECK(crowd.rig.epoch() == epoch);
  }
  const Daemon& late = crowd.join();
  crowd.rig.run(kSoonNs);
  CHECK(crowd.rig.epoch() == 9);
  crowd.rig.run(kNsPerSecond / 2);
  CHECK(crowd.rig.epoch() == 10);
  CHECK(crowd.rig.slots_of(late) > 0);
}

TEST_CASE("a hundred daemons that join one by one cost four maps and two a second") {
  Crowd crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.join();
    crowd.rig.run(4 * kTurnNs);
  }
  // In four seconds.
  const base::Epoch epochs = crowd.rig.epoch() - 1;
  CHECK(epochs >= 10);
  CHECK(epochs <= 4 + 2 * 4);
  crowd.rig.run(kNsPerSecond / 2 + kSoonNs);
  CHECK(crowd.rig.manager->map()->members().size() == crowd.count);
  CHECK(crowd.rig.everybody_has_the_map());
}

TEST_CASE("who comes and goes between two maps is in none, and leaves share the map of joins") {
  Crowd crowd;
  std::vector<Daemon*> there;
  for (int i = 0; i < 4; ++i) {
    there.push_back(&crowd.join());
    crowd.rig.run(kSoonNs);
  }
  const base::Epoch epoch = crowd.rig.epoch();
  const Daemon& stays = crowd.join();
  Daemon& passes = crowd.join();
  there[0]->member.drain();
  crowd.rig.run(kSoonNs);
  passes.member.drain();
  crowd.rig.run(kSoonNs);
  CHECK(crowd.rig.epoch() == epoch);
  crowd.rig.run(kNsPerSecond);
  CHECK(crowd.rig.epoch() == epoch + 1);
  CHECK(crowd.rig.slots_of(stays) > 0);
  CHECK(there[0]->member.owns_nothing());
  for (const SlotMapPtr& map : stays.maps) {
    CHECK_FALSE(map->find(passes.member.config().identity.incarnation).has_value());
  }
}

}  // namespace map_pace_test
